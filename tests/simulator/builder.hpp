// Writes the programs of one launch's agents.
#pragma once
#include <array>

#include "system.hpp"

namespace unisono::simulator {

class LaunchBuilder {
 public:
  LaunchBuilder(System& system, const Case& c, int launch);
  void add();

 private:
  struct Part {
    int image, slot;  // slot: of the cluster's first CTA and first consumer
  };
  struct Tile {
    int number = 0, n = 0;
    std::vector<Part> parts;  // one, unless the tile straddles images
  };
  // A consumer's share of a tile.
  struct TileShare {
    int number, rank, n;      // of the share; of the CTA in its cluster; of the channel tile, in CTAs
    std::vector<Part> parts;  // with this share's slots
    int k_part;
    int output;  // location
  };

  int halves() const { return kernel.warpgroups / kernel.consumer_groups(); }  // warpgroups of a consumer group
  int group_of(int warpgroup) const { return warpgroup / halves(); }
  int share_of(const Tile& tile, int rank, int half) const {
    return (tile.number * kernel.cluster_ctas() + rank) * halves() + half;
  }
  bool uses_workspace() const { return kernel.mode != Mode::kPlain || kernel.split_k > 1; }
  int items_of(int cluster) const;
  bool has_main_loop(int cluster) const;
  uint16_t row_ctas(int rank) const;     // share this CTA's activations
  uint16_t column_ctas(int rank) const;  // share its filters
  uint16_t readers_of(int rank) const;   // are told when this CTA's warpgroups have read a stage
  bool by_tags() const { return kernel.exchange == Exchange::kTags && kernel.mode != Mode::kPlain; }
  int counter(const std::string& name, int arrivals);
  int flag(int image);
  int exits();
  int workspace_location(const std::string& name);
  int slot_location(int image, int slot, int n);
  CtaSpec cta(int index) const;
  void expect_counters();

  enum class Role { kProducer, kConsumer, kMerger, kSecondPass, kPreparer };
  AgentSpec agent(const std::string& name, Role role, int cta, int cluster, int rank, int warpgroup);
  void add_cta(int index);
  void add_memset();
  void begin(AgentSpec& agent);
  void leave(AgentSpec& agent);
  void produce(AgentSpec& agent, int cluster, int rank);

  // consumer.cpp
  std::vector<TileShare> consume(AgentSpec& agent, int cluster, int rank, int warpgroup);
  TileShare place_of(int cluster, int rank, int warpgroup, int item);
  void multiply(AgentSpec& agent, int item, int rank, int warpgroup);
  size_t reduce_partials(AgentSpec& agent, const TileShare& at);
  void finish_tile(AgentSpec& agent, const TileShare& at, int item, int warpgroup);
  void write_slots(AgentSpec& agent, const TileShare& at);
  void publish(AgentSpec& agent, const TileShare& at);
  void publish_part(AgentSpec& agent, const TileShare& at, const Part& part);
  void wait_for_images(AgentSpec& agent, const TileShare& at);
  void read_statistics(AgentSpec& agent, const TileShare& at);
  void wait_to_store(AgentSpec& agent, int item, int warpgroup);
  void store(AgentSpec& agent, const TileShare& at, Kind kind);
  void second_pass(AgentSpec& agent, const TileShare& at);

  // tags.cpp
  void write_entry(AgentSpec& agent, const std::string& name, uint32_t value);
  void wait_for_entry(AgentSpec& agent, const std::string& name, uint32_t value);
  void write_slot_entries(AgentSpec& agent, const TileShare& at);
  bool add_partials(AgentSpec& agent, const TileShare& at);
  void wait_for_entries(AgentSpec& agent, const TileShare& at);
  void exchange_rows(AgentSpec& agent, const TileShare& at);
  bool waits_with(const TileShare& a, const TileShare& b) const;
  void reduce_over_rows(AgentSpec& agent, const TileShare& at, int level);
  std::string level_name(int image, int level) const;
  void wait_for_level(AgentSpec& agent, const TileShare& at, int level);
  void exchange_over_rows(AgentSpec& agent, const TileShare& at);
  void pass_over_image(AgentSpec& agent, const std::vector<TileShare>& tiles);
  static std::string row_name(const char* what, const Part& part, int level, int n);
  void write_row_entry(AgentSpec& agent, const TileShare& at, int level);
  void pass_over_row(AgentSpec& agent, const std::vector<TileShare>& row);
  void finish_deferred(AgentSpec& agent, const TileShare& at);
  void merge_segments(AgentSpec& agent, int cluster, int rank);
  void normalise_again(AgentSpec& agent, int cluster, int rank);
  void tell_stored(AgentSpec& agent, int warpgroup, int count, int pending);
  int stored_count(const AgentSpec& agent, int warpgroup);

  // kept.cpp
  struct ConsumerGroup {
    AgentSpec& agent;  // one of its warpgroups
    int warpgroup, index, rank;
    std::vector<TileShare> places;
    int oldest = 0;     // tile that is not yet finished
    uint64_t done = 0;  // tiles after it that are
    int image = -1, n = -1;
    int runs = 0, loads = 0;  // columns taken over; tiles loaded back
  };
  int full_columns(int group) const { return 2 * kernel.stages + 4 + group; }  // barriers
  int empty_columns(int group) const { return 2 * kernel.stages + 6 + group; }
  int loaded(int warpgroup) const { return 2 * kernel.stages + 8 + warpgroup; }
  int columns(int group) const;  // buffers
  int staging(int warpgroup) const;
  uint32_t columns_value(const TileShare& at) const;
  int domain_of(const TileShare& at) const;
  bool alike(const ConsumerGroup& group, int kept) const;
  void consume_kept(AgentSpec& agent, int cluster, int rank, int warpgroup);
  void make_room(ConsumerGroup& group, int kept, int domain, bool drain);
  void keep(ConsumerGroup& group, const TileShare& at);
  void spill(ConsumerGroup& group, const TileShare& at, Kind kind);
  void await_columns(ConsumerGroup& group, const TileShare& at);
  void release_columns(ConsumerGroup& group);
  void finish(ConsumerGroup& group, const TileShare& at, bool spilled, bool later);
  void load_back(ConsumerGroup& group, const TileShare& at, bool later);
  void finished(ConsumerGroup& group, int tile) const;
  void prepare(AgentSpec& agent, int cluster, int rank, int group);

  void arrive(AgentSpec& agent, int atomic, int arrivals, Order order);
  Order arrival_order() const;
  Order flag_order() const;

  System& system;
  const Launch& launch;
  const Kernel& kernel;
  const int number;  // of the launch
  const uint32_t first_epoch, epochs;
  std::vector<Tile> tiles;                       // of clusters, in the order in which they are dealt
  std::vector<int> slots;                        // of each image, for one channel tile
  std::map<std::array<int, 3>, int> slot_owner;  // (image, slot, n) -> number of the share that fills it
  std::vector<int> tags_written;                 // atomics
  std::map<int, int> arrivals_of;                // atomic -> arrivals of this launch
};

}  // namespace unisono::simulator
