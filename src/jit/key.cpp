#include "jit/key.hpp"

#include <algorithm>

#include "support/hash.hpp"

namespace unisono::jit {

namespace {

// In the order of their names: their order in the request does not matter to the compiler
std::vector<const Header*> sorted_headers(const Request& request) {
  std::vector<const Header*> headers;
  for (const Header& h : request.headers) headers.push_back(&h);
  std::sort(headers.begin(), headers.end(), [](const Header* a, const Header* b) { return a->name < b->name; });
  return headers;
}

}  // namespace

std::string headers_key(const Request& request) {
  support::Hasher h;
  h.field("headers 1");
  for (const Header* header : sorted_headers(request)) h.field(header->name).field(header->text);
  return h.digest();
}

std::string program_key(const Request& request) {
  support::Hasher h;
  h.field("program 1").field(request.source).field(request.arch);
  if (request.host_library) h.field("host library");
  h.field(std::to_string(request.options.size()));
  for (const std::string& o : request.options) h.field(o);
  for (const Header* header : sorted_headers(request)) h.field(header->name).field(header->text);
  return h.digest();
}

std::string binary_key(const std::string& program, Compiler& compiler, const Request& request) {
  support::Hasher h;
  h.field("binary 1").field(program).field(compiler.identity());
  for (const std::string& o : compiler.options(request.arch)) h.field(o);
  for (const std::string& variable : compiler.environment()) h.field("environment").field(variable);
  return h.digest();
}

std::vector<std::string> all_options(const Compiler& compiler, const Request& request) {
  std::vector<std::string> options = compiler.options(request.arch);
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

}  // namespace unisono::jit
