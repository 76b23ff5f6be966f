#include "jit/key.hpp"

#include <set>

#include "fixture.hpp"

namespace unisono::jit {
namespace {

struct Case {
  Request request{
      .source = "source", .headers = {}, .entry = "k", .title = "title", .options = {"-DA", "-DB"}, .arch = "sm_90a"};
  std::vector<Header> headers{{"a.cuh", "text a"}, {"b.cuh", "text b"}};
  std::string version = "1";
  std::vector<std::string> variables;

  std::string key() {
    request.headers = headers;
    testing::FakeCompiler compiler(version);
    compiler.variables = variables;
    return binary_key(program_key(request), compiler, request);
  }
};

TEST(Key, IsThirtyTwoHexadecimalDigits) { EXPECT_TRUE(is_key(Case{}.key())); }

TEST(Key, EveryInputChangesIt) {
  std::set<std::string> keys{Case{}.key()};
  const auto differs = [&](auto change) {
    Case c;
    change(c);
    return keys.insert(c.key()).second;
  };
  EXPECT_TRUE(differs([](Case& c) { c.request.source = "sourcf"; }));
  EXPECT_TRUE(differs([](Case& c) { c.request.source += '\n'; }));
  EXPECT_TRUE(differs([](Case& c) { c.request.arch = "sm_80"; }));
  EXPECT_TRUE(differs([](Case& c) { c.request.options = {"-DA"}; }));
  EXPECT_TRUE(differs([](Case& c) { c.request.options = {"-DA-DB"}; }));
  EXPECT_TRUE(differs([](Case& c) { c.request.options = {"-DB", "-DA"}; }));  // the last of two may win
  EXPECT_TRUE(differs([](Case& c) { c.request.options = {"-DA", "-DB", ""}; }));
  EXPECT_TRUE(differs([](Case& c) { c.headers[1].text = "text c"; }));
  EXPECT_TRUE(differs([](Case& c) { c.headers[1].name = "c.cuh"; }));
  EXPECT_TRUE(differs([](Case& c) { c.headers.pop_back(); }));
  EXPECT_TRUE(differs([](Case& c) { c.headers = {{"a.cuh", "text b"}, {"b.cuh", "text a"}}; }));
  EXPECT_TRUE(differs([](Case& c) { c.headers = {{"a.cuhtext a", ""}, {"b.cuh", "text b"}}; }));
  EXPECT_TRUE(differs([](Case& c) { c.version = "2"; }));
  EXPECT_TRUE(differs([](Case& c) { c.variables = {"NVCC_APPEND_FLAGS=-G"}; }));
  EXPECT_TRUE(differs([](Case& c) { c.variables = {"NVCC_PREPEND_FLAGS=-G"}; }));
  EXPECT_TRUE(differs([](Case& c) { c.variables = {"NVCC_APPEND_FLAGS=-G", "NVCC_CCBIN=clang"}; }));
}

TEST(Key, WhatTheBinaryDoesNotDependOnIsNotInIt) {
  Case changed;
  changed.request.title = "another";
  changed.request.entry = "another";  // an entry keeps the resources of all its kernels
  std::swap(changed.headers[0], changed.headers[1]);
  EXPECT_EQ(changed.key(), Case{}.key());
}

TEST(Key, ProgramKeyKnowsNoCompiler) {
  Case c;
  testing::FakeCompiler one("1"), two("2");
  const std::string program = program_key(c.request);
  EXPECT_NE(binary_key(program, one, c.request), binary_key(program, two, c.request));
  EXPECT_NE(binary_key(program, one, c.request), program);
}

}  // namespace
}  // namespace unisono::jit
