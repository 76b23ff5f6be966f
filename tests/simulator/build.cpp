// Compiles a case into agents' programs: the producer's here, the consumers' in consumer.cpp.
#include <fmt/format.h>

#include <bit>
#include <stdexcept>

#include "builder.hpp"

namespace unisono::simulator {

int System::location(const std::string& name) {
  for (size_t i = 0; i < locations.size(); ++i)
    if (locations[i] == name) return int(i);
  locations.push_back(name);
  return int(locations.size()) - 1;
}

int System::atomic(const std::string& name, uint32_t initial) {
  for (size_t i = 0; i < atomics.size(); ++i)
    if (atomics[i].name == name) return int(i);
  atomics.push_back({name, initial, initial});
  return int(atomics.size()) - 1;
}

LaunchBuilder::LaunchBuilder(System& system_, const Case& c, int launch_)
    : system(system_),
      launch(c.launches[launch_]),
      kernel(launch.kernel),
      number(launch_),
      first_epoch(c.first_epoch),
      epochs(c.epochs) {
  const Kernel& k = kernel;
  const bool ping_pong = k.schedule == Schedule::kPingPong;
  const bool straddling = k.bug == Bug::kStraddlingTile;
  if (first_epoch >= epochs) throw std::invalid_argument("the first epoch is none");
  if (k.ctas < 1 || k.ctas % k.cluster_ctas() != 0) throw std::invalid_argument("the grid is not whole clusters");
  if (ping_pong && k.warpgroups != 2 && (k.warpgroups != 4 || k.mode == Mode::kStreamed))
    throw std::invalid_argument("ping-pong has two consumers, or four");
  if (k.ordered_store && (!ping_pong || k.split_k > 1 || k.mode == Mode::kStreamed || k.mode == Mode::kKept))
    throw std::invalid_argument("ordered stores: ping-pong, one store a tile, no split-K");
  if (k.mode == Mode::kKept && (k.exchange != Exchange::kTags || straddling))
    throw std::invalid_argument("kept tiles are modelled with tags");
  if ((k.mode == Mode::kRows || k.mode == Mode::kOverRows) &&
      (k.exchange != Exchange::kTags || straddling || k.split_k > 1))
    throw std::invalid_argument("rows are exchanged by tags, and whole");
  if (k.mode == Mode::kRows && k.segment_slots > 1)
    throw std::invalid_argument("tiles of a row exchange without segments");
  if (k.by_channels && k.mode != Mode::kKept && (k.mode != Mode::kResident || !by_tags() || k.cluster_n > 1))
    throw std::invalid_argument("kept tiles are dealt by channels, and resident ones that exchange tags");
  if (by_tags() && k.split_k > 1 && k.mode != Mode::kResident)
    throw std::invalid_argument("split-K by tags is modelled in resident mode");
  if (straddling && (k.cluster_ctas() > 1 || k.split_k > 1 || k.segment_slots > 1 || k.tiles_n > 1))
    throw std::invalid_argument("straddling tiles are modelled one block wide");

  if ((int64_t(k.images) * k.items_per_image() - 1) / k.clusters() / k.consumer_groups() >= 32)
    throw std::invalid_argument("a warpgroup has more than 32 items");

  slots.assign(k.images, 0);
  if (straddling) {
    for (int first = 0; first < k.images * k.rows; first += k.tile_rows) {
      Tile tile;
      tile.number = int(tiles.size());
      for (int image = first / k.rows; image < k.images && image * k.rows < first + k.tile_rows; ++image) {
        tile.parts.push_back({image, slots[image]});
        for (int half = 0; half < halves(); ++half) slot_owner[{image, slots[image]++, 0}] = share_of(tile, 0, half);
      }
      tiles.push_back(tile);
    }
    return;
  }
  for (int image = 0; image < k.images; ++image)
    for (int i = 0; i < k.tiles_m() * k.tiles_n; ++i) {
      const int m = k.by_channels ? i % k.tiles_m() : i / k.tiles_n,
                n = k.by_channels ? i / k.tiles_m() : i % k.tiles_n;
      tiles.push_back({int(tiles.size()), n, {{image, m * k.cluster_m * halves()}}});
    }
  slots.assign(k.images, k.tiles_m() * k.cluster_m * halves());
  for (const Tile& tile : tiles)
    for (int rank = 0; rank < k.cluster_ctas(); ++rank)
      for (int half = 0; half < halves(); ++half)
        slot_owner[{tile.parts[0].image, tile.parts[0].slot + rank / k.cluster_n * halves() + half,
                    tile.n * k.cluster_n + rank % k.cluster_n}] = share_of(tile, rank, half);
}

int LaunchBuilder::counter(const std::string& name, int arrivals) {
  return system.atomic(fmt::format("ws{} {}", launch.workspace, name), first_epoch * uint32_t(arrivals));
}

int LaunchBuilder::workspace_location(const std::string& name) {
  return system.location(fmt::format("ws{} {}", launch.workspace, name));
}

int LaunchBuilder::flag(int image) { return counter(fmt::format("flag of image {}", image), 1); }
int LaunchBuilder::exits() { return counter("exits", kernel.ctas); }

uint16_t LaunchBuilder::row_ctas(int rank) const {
  uint16_t mask = 0;
  for (int i = 0; i < kernel.cluster_n; ++i)
    mask = uint16_t(mask | 1 << (rank / kernel.cluster_n * kernel.cluster_n + i));
  return mask;
}

uint16_t LaunchBuilder::column_ctas(int rank) const {
  uint16_t mask = 0;
  for (int i = 0; i < kernel.cluster_m; ++i)
    mask = uint16_t(mask | 1 << (i * kernel.cluster_n + rank % kernel.cluster_n));
  return mask;
}

// In a cluster of rows and columns a CTA that is told of its row and column only may find its count complete by a
// neighbour that is a round ahead, while a CTA of its column is still reading: so all tell all.
uint16_t LaunchBuilder::readers_of(int rank) const {
  if (kernel.bug == Bug::kLocalRelease) return uint16_t(1 << rank);
  if (kernel.bug == Bug::kRowColumnRelease) return uint16_t(row_ctas(rank) | column_ctas(rank));
  return uint16_t((1 << kernel.cluster_ctas()) - 1);
}

// Barriers of a CTA: full[stages], empty[stages], order[2], order of stores[2]; kept: full and empty columns[2] of
// the consumer groups, loaded[consumers].
CtaSpec LaunchBuilder::cta(int index) const {
  const Kernel& k = kernel;
  const int readers = halves();
  CtaSpec b{
      number, int(system.ctas.size()) - index % k.cluster_ctas(), index % k.cluster_ctas(), 0, 0, {}, 0, 1, readers, 0,
      0};
  const int sharers = std::popcount(readers_of(index % k.cluster_ctas()));
  for (int s = 0; s < k.stages; ++s) b.barriers.push_back({fmt::format("full[{}]", s), 1});
  for (int s = 0; s < k.stages; ++s) b.barriers.push_back({fmt::format("empty[{}]", s), readers * sharers});
  for (int w = 0; w < 2; ++w) b.barriers.push_back({fmt::format("order[{}]", w), readers});
  for (int w = 0; w < 2; ++w) b.barriers.push_back({fmt::format("store order[{}]", w), readers});
  b.parts = k.cluster_ctas() > 1 ? 2 : 1;
  b.buffers = b.columns = b.staging = k.stages * b.parts;
  if (k.mode != Mode::kKept) return b;
  for (int t = 0; t < 2; ++t) b.barriers.push_back({fmt::format("columns full[{}]", t), 1});
  for (int t = 0; t < 2; ++t) b.barriers.push_back({fmt::format("columns empty[{}]", t), readers});
  for (int c = 0; c < k.consumers(); ++c) b.barriers.push_back({fmt::format("loaded[{}]", c), 1});
  b.staging = columns(2);
  b.buffers = staging(k.consumers());
  return b;
}

// Cluster `cluster` computes the items cluster, cluster + clusters, ...; returns how many.
int LaunchBuilder::items_of(int cluster) const {
  const int items = int(tiles.size()) * kernel.split_k;
  return cluster >= items ? 0 : (items - cluster - 1) / kernel.clusters() + 1;
}

bool LaunchBuilder::has_main_loop(int cluster) const {
  return kernel.k_blocks > 0 && (kernel.main_loops < 0 || cluster < kernel.main_loops);
}

void LaunchBuilder::begin(AgentSpec& agent) {
  const bool early = kernel.bug == Bug::kEpochBeforeGridWait;
  const uint32_t by = kernel.bug == Bug::kExitsAsEpoch ? 1 : uint32_t(kernel.ctas);
  auto read_epoch = [&] {
    if (uses_workspace()) agent.code.push_back({Op::kReadEpoch, Order::kRelaxed, uint16_t(exits()), 1, 0, by});
  };
  if (early) read_epoch();
  if (launch.programmatic) agent.code.push_back({Op::kWaitGrid});
  if (!early) read_epoch();
}

// The CTA's way out: it is counted once all of its agents have the epoch.
void LaunchBuilder::leave(AgentSpec& agent) {
  if (!agent.last_out) return;
  const bool early = kernel.bug == Bug::kCountedOutEarly;
  const bool uncounted = kernel.bug == Bug::kEpochNotAdvanced && agent.cta == system.launches[number].first_cta;
  auto count_out = [&] {
    if (uses_workspace() && !uncounted)
      agent.code.push_back({Op::kExit, Order::kRelaxed, uint16_t(exits()), 1, 0, uint32_t(kernel.ctas)});
  };
  if (early) count_out();
  agent.sync = int(agent.code.size());
  agent.code.push_back({Op::kClusterSync, Order::kRelaxed, 0, 1, 0, kernel.bug != Bug::kNoClusterSync});
  if (!early) count_out();
}

// One thread: waits for a free stage, expects its bytes, loads. CTAs of a cluster take turns at what they share.
void LaunchBuilder::produce(AgentSpec& agent, int cluster, int rank) {
  const Kernel& k = kernel;
  const int parts = k.cluster_ctas() > 1 ? 2 : 1;
  for (int b = 0; b < items_of(cluster) * k.k_blocks; ++b) {
    const int stage = b % k.stages;
    const uint32_t parity = k.bug == Bug::kProducerParity ? 1 : uint32_t(b / k.stages & 1) ^ 1;
    const auto full = uint16_t(stage);
    agent.code.push_back({Op::kWaitBarrier, Order::kAcquire, uint16_t(k.stages + stage), 1, 0, parity});
    agent.code.push_back({Op::kExpect, Order::kRelease, full, uint16_t(1 << rank), 0, uint32_t(parts)});
    const auto buffer = uint16_t(stage * parts);
    if (b % k.cluster_n == rank % k.cluster_n)
      agent.code.push_back({Op::kLoad, Order::kRelaxed, buffer, row_ctas(rank), full, uint32_t(b + 1)});
    if (parts == 2 && b % k.cluster_m == rank / k.cluster_n)
      agent.code.push_back(
          {Op::kLoad, Order::kRelaxed, uint16_t(buffer + 1), column_ctas(rank), full, uint32_t(b + 1)});
  }
}

AgentSpec LaunchBuilder::agent(const std::string& name, Role role, int cta, int cluster, int rank, int warpgroup) {
  AgentSpec a;
  a.name = name;
  a.launch = number;
  a.cta = cta;
  a.last_out = role == (has_main_loop(cluster) ? Role::kProducer : Role::kConsumer) && warpgroup == 0;
  begin(a);
  std::vector<TileShare> again;
  switch (role) {
    case Role::kProducer: produce(a, cluster, rank); break;
    case Role::kConsumer: again = consume(a, cluster, rank, warpgroup); break;
    case Role::kMerger: merge_segments(a, cluster, rank); break;
    case Role::kSecondPass: normalise_again(a, cluster, rank); break;
    case Role::kPreparer: prepare(a, cluster, rank, warpgroup); break;
  }
  leave(a);
  a.end = int(a.code.size());
  a.code.push_back({Op::kReturn});  // the end itself, never taken
  for (const TileShare& at : again) second_pass(a, at);
  return a;
}

void LaunchBuilder::add_cta(int index) {
  const int cluster = index / kernel.cluster_ctas(), rank = index % kernel.cluster_ctas(), id = int(system.ctas.size());
  CtaSpec b = cta(index);
  b.first_agent = int(system.agents.size());
  auto add_agent = [&](const std::string& name, Role role, int warpgroup) {
    AgentSpec a = agent(fmt::format("launch {} block {} {}", number, index, name), role, id, cluster, rank, warpgroup);
    system.agents.push_back(std::move(a));
  };
  if (has_main_loop(cluster)) add_agent("producer", Role::kProducer, 0);
  for (int w = 0; w < kernel.consumers(); ++w) add_agent(fmt::format("consumer {}", w), Role::kConsumer, w);
  if (by_tags() && kernel.segment_slots > 1 && kernel.mode != Mode::kOverRows) add_agent("merger", Role::kMerger, 0);
  if (by_tags() && kernel.mode == Mode::kStreamed) add_agent("second pass", Role::kSecondPass, 0);
  for (int t = 0; kernel.mode == Mode::kKept && t < kernel.consumer_groups(); ++t)
    add_agent(fmt::format("preparer {}", t), Role::kPreparer, t);
  b.agents = int(system.agents.size()) - b.first_agent;
  system.ctas.push_back(std::move(b));
}

void LaunchBuilder::add_memset() {
  AgentSpec a;
  a.name = fmt::format("launch {} memset", number);
  a.launch = number;
  a.cta = int(system.ctas.size());
  for (size_t i = 0; i < system.atomics.size(); ++i)
    if (system.atomics[i].name.starts_with(fmt::format("ws{} counter", launch.workspace)))
      a.code.push_back({Op::kReset, Order::kRelaxed, uint16_t(i)});
  a.end = int(a.code.size());
  a.code.push_back({Op::kReturn});
  CtaSpec b = cta(0);
  b.first_agent = int(system.agents.size());
  b.agents = 1;
  system.agents.push_back(std::move(a));
  system.ctas.push_back(std::move(b));
}

void LaunchBuilder::add() {
  int previous = number - 1;
  while (previous >= 0 && system.launches[previous].stream != launch.stream) --previous;
  const int ctas = launch.memset ? 1 : kernel.ctas, cluster_ctas = launch.memset ? 1 : kernel.cluster_ctas();
  system.launches.push_back({launch.stream,
                             previous,
                             int(system.ctas.size()),
                             ctas,
                             cluster_ctas,
                             launch.cooperative,
                             launch.programmatic,
                             {}});
  if (launch.memset) return add_memset();
  for (int index = 0; index < ctas; ++index) add_cta(index);
  expect_counters();
}

// What this launch adds to the workspace's counters.
void LaunchBuilder::expect_counters() {
  if (!uses_workspace()) return;
  auto add = [&](int atomic, uint32_t arrivals) {
    uint32_t& final = system.atomics[atomic].final;
    final = (final + arrivals) % (arrivals * epochs);
  };
  const uint32_t next_epoch = system.atomics[exits()].final / uint32_t(kernel.ctas) + 1;
  add(exits(), uint32_t(kernel.ctas));
  for (const auto& [atomic, arrivals] : arrivals_of) add(atomic, uint32_t(arrivals));
  for (int tagged : tags_written) system.atomics[tagged].final = next_epoch;
  for (int image = 0; kernel.mode != Mode::kPlain && !by_tags() && image < kernel.images; ++image)
    system.atomics[flag(image)].final = next_epoch;
}

System build(const Case& c) {
  System system;
  system.processors = c.processors, system.epochs = c.epochs;
  for (size_t i = 0; i < c.launches.size(); ++i) LaunchBuilder(system, c, int(i)).add();
  return system;
}

}  // namespace unisono::simulator
