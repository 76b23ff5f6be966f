#include "bench/replays.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>

#include "unisono/error.hpp"

namespace unisono::bench {

using cuda::check;
using cuda::driver;

namespace {

std::size_t kernel_nodes(CUgraph graph) {
  std::size_t count = 0;
  check(driver().cuGraphGetNodes(graph, nullptr, &count), "counting a graph's nodes");
  std::vector<CUgraphNode> nodes(count);
  check(driver().cuGraphGetNodes(graph, nodes.data(), &count), "reading a graph's nodes");
  return static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), [](CUgraphNode node) {
    CUgraphNodeType type{};
    check(driver().cuGraphNodeGetType(node, &type), "asking for a node's type");
    return type == CU_GRAPH_NODE_TYPE_KERNEL;
  }));
}

CUevent make_event() {
  CUevent event = nullptr;
  check(driver().cuEventCreate(&event, CU_EVENT_DEFAULT), "making an event");
  return event;
}

}  // namespace

Replays::Replays(std::vector<Enqueue> sets, int rounds, std::string what)
    : sets_(std::move(sets)), executions_(rounds * static_cast<int>(sets_.size())), what_(std::move(what)) {
  for (const Enqueue& enqueue : sets_) enqueue(stream_.get());
  gpu::wait(stream_.get(), what_);
  // relaxed: what a peer does beside its launches is its own affair
  check(driver().cuStreamBeginCapture_v2(stream_.get(), CU_STREAM_CAPTURE_MODE_RELAXED), "beginning a capture");
  try {
    for (int i = 0; i < executions_; ++i) sets_[static_cast<std::size_t>(i) % sets_.size()](stream_.get());
  } catch (...) {
    driver().cuStreamEndCapture(stream_.get(), &graph_);
    if (graph_ != nullptr) driver().cuGraphDestroy(graph_);
    throw;
  }
  check(driver().cuStreamEndCapture(stream_.get(), &graph_), "capturing " + what_);
  check(driver().cuGraphInstantiateWithFlags(&executable_, graph_, 0), "making a graph of " + what_);
  kernels_each_ = static_cast<double>(kernel_nodes(graph_)) / executions_;
  start_ = make_event(), stop_ = make_event();
}

Replays::~Replays() {
  if (start_ != nullptr) driver().cuEventDestroy_v2(start_);
  if (stop_ != nullptr) driver().cuEventDestroy_v2(stop_);
  if (executable_ != nullptr) driver().cuGraphExecDestroy(executable_);
  if (graph_ != nullptr) driver().cuGraphDestroy(graph_);
}

double Replays::time() {
  check(driver().cuEventRecord(start_, stream_.get()), "recording an event");
  check(driver().cuGraphLaunch(executable_, stream_.get()), "replaying " + what_);
  check(driver().cuEventRecord(stop_, stream_.get()), "recording an event");
  gpu::wait(stream_.get(), what_);
  float ms = 0;
  check(driver().cuEventElapsedTime(&ms, start_, stop_), "reading the time of " + what_);
  return static_cast<double>(ms) * 1000 / executions_;
}

std::unique_ptr<Replays> replays_of(const std::vector<Enqueue>& sets, const std::string& what, double target_us) {
  auto once = std::make_unique<Replays>(sets, 1, what);
  once->time();
  const double turn_us = once->time() * static_cast<double>(sets.size());
  const int rounds = static_cast<int>(std::clamp(std::ceil(target_us / turn_us), 1.0, 64.0));
  if (rounds == 1) return once;
  return std::make_unique<Replays>(sets, rounds, what);
}

namespace {

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// times[contender][round][replay]
using Times = std::vector<std::vector<std::vector<double>>>;

Times take_turns(const std::vector<Contender*>& contenders, int rounds, int replays, double pause) {
  Times times(contenders.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      sleep(pause);
      for (int warm = 0; warm < 2; ++warm) contenders[i]->time();
      auto& mine = times[i].emplace_back();
      for (int replay = 0; replay < replays; ++replay) mine.push_back(contenders[i]->time());
    }
  return times;
}

}  // namespace

std::vector<Timing> measure(const std::vector<Contender*>& contenders, const Protocol& protocol) {
  sleep(protocol.rest);
  const Times rested = take_turns(contenders, protocol.rounds, protocol.replays, protocol.pause);
  const Times hot = take_turns(contenders, protocol.hot_rounds, protocol.replays, 0);
  std::vector<Timing> result;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Timing& timing = result.emplace_back(summary(rested[i]));
    if (protocol.hot_rounds > 1) timing.hot = summary(std::span(hot[i]).subspan(1)).us;
  }
  return result;
}

double glance(Replays& contender) {
  contender.time();
  return median({contender.time(), contender.time(), contender.time()});
}

}  // namespace unisono::bench
