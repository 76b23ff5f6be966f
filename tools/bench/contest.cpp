#include "bench/contest.hpp"

#include <fmt/format.h>

#include "bench/replays.hpp"
#include "bench/verify.hpp"
#include "families/interface/family.hpp"
#include "support/dtypes.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

namespace {

using Sets = std::vector<std::unique_ptr<Data>>;

/// The variant that was fastest at a glance, with its graph.
struct Champion {
  const Variant* variant = nullptr;
  std::optional<Built> built;
  std::vector<Enqueue> sets;
  std::unique_ptr<Replays> replays;
  double us = 0;
};

// A kernel that fails leaves the context as it was, or breaks it for all that follows
void rethrow_if_broken(const Error& error) {
  if (cuda::driver().cuCtxSynchronize() != CUDA_SUCCESS) throw DeviceError(error.what());
}

std::vector<Enqueue> bound(const Executable& executable, const Sets& sets) {
  std::vector<Enqueue> all;
  for (const auto& data : sets) {
    const Launch launch = executable.bind(data->arguments());
    all.push_back([launch](CUstream stream) { launch.enqueue(stream); });
  }
  return all;
}

std::string plan_text(const Variant& v) { return families::describe(v.lowered.plan()); }

Champion choose(const Variants& variants, const Sets& sets, const std::string& what, std::vector<Tried>& tried) {
  Champion best;
  for (const Variant& v : variants.list) {
    Tried t{plan_text(v), v.lowered.plan().predicted_us, 0, ""};
    try {
      Champion now{.variant = &v, .built = build(v), .sets = {}, .replays = nullptr, .us = 0};
      now.sets = bound(now.built->executable, sets);
      now.replays = replays_of(now.sets, what + ", " + t.plan);
      now.us = t.us = glance(*now.replays);
      if (best.variant == nullptr || now.us < best.us) best = std::move(now);
    } catch (const Error& error) {
      t.error = error.what();
      rethrow_if_broken(error);
    }
    tried.push_back(std::move(t));
  }
  if (best.variant == nullptr)
    throw Unsupported("no plan ran; the first: " + tried.at(0).plan + ": " + tried.at(0).error);
  return best;
}

struct VendorChampion {
  std::unique_ptr<Replays> replays;
  double us = 0;
  std::string engine;
};

VendorChampion choose_engine(std::vector<Engine> engines, const std::string& what) {
  VendorChampion best;
  std::string first_error = "none of its engines ran";
  for (Engine& engine : engines) {
    try {
      auto replays = replays_of(engine.sets, what + ", " + engine.name);
      const double us = glance(*replays);
      if (!best.replays || us < best.us) best = {std::move(replays), us, engine.name};
    } catch (const Error& error) {
      first_error = engine.name + ": " + error.what();
      rethrow_if_broken(error);
    }
    engine.sets.clear();  // and with them the workspace of an engine that lost
  }
  if (!best.replays) throw UserError(first_error);
  return best;
}

/// A library, the case's sets of operands with the epilogue that it runs, and what became of it.
struct Vendor {
  std::string peer;
  std::function<std::vector<Engine>()> engines;
  std::string error;
};

// cuDNN's bare convolution; of a product cuBLASLt's with the case's epilogue, if it has it, and bare beside it: of
// a dual product one of twice as many columns
std::vector<Vendor> vendors_of(const Case& c, Peers& peers, const Sets& sets, const Sets& bare_sets) {
  if (c.volume) return {};  // bench/volumes.py has PyTorch's
  if (!c.product)
    return {{"cudnn",
             [&] {
               return peers.cudnn->engines(c.conv, c.dgrad ? Direction::dgrad : Direction::forward,
                                           c.is_bare() ? sets : bare_sets);
             },
             peers.cudnn_error}};
  const auto product = [&](ProductEpilogue epilogue, const Sets& of) {
    const Gemm gemm = std::get<Gemm>(epilogue == ProductEpilogue::none ? c.bare_contraction() : c.contraction());
    return [&peers, gemm, &of, epilogue] { return peers.cublaslt->engines(gemm, epilogue, of); };
  };
  if (c.is_bare()) return {{"cublaslt", product(ProductEpilogue::none, sets), peers.cublaslt_error}};
  std::vector<Vendor> all{{"cublaslt_bare", product(ProductEpilogue::none, bare_sets), peers.cublaslt_error}};
  if (const ProductEpilogue own = epilogue_of(c); own != ProductEpilogue::none)
    all.insert(all.begin(), {"cublaslt", product(own, sets), peers.cublaslt_error});
  return all;
}

Checked to_checked(const Verdict& v) {
  return {v.elements, v.outside, v.unclaimed, v.worst, v.error, v.tolerance, v.largest_error, v.repeats};
}

bool sums_atomically(const Case& c, const Prepared& p, std::size_t rival, const Champion& champion) {
  const auto which = champion.variant - p.rivals[rival].variants->list.data();
  return c.rivals[rival].plans[static_cast<std::size_t>(which)].find("reductions=atomic") != std::string::npos;
}

// The case's own kernel, and its rivals'
std::future<Contest::Judged> start_checking(const Prepared& p, const Champion& own, const std::vector<Champion>& rivals,
                                            const Data& data) {
  const auto start = [&](const Champion& x) {
    return start_verifying(*p.c, x.built->executable, data, x.variant->lowered.plan().numerics);
  };
  struct Subject {
    std::string name;
    std::function<Verdict()> judge;
    bool may_vary;
  };
  std::vector<Subject> subjects;
  for (std::size_t i = 0; i < rivals.size(); ++i)
    if (rivals[i].variant != nullptr)
      subjects.push_back({p.rivals[i].name, start(rivals[i]), sums_atomically(*p.c, p, i, rivals[i])});
  return std::async(std::launch::async, [judge = start(own), subjects = std::move(subjects)] {
    Contest::Judged all{to_checked(judge()), {}};
    for (const Subject& s : subjects) {
      Checked& checked = all.rivals[s.name] = to_checked(s.judge());
      checked.may_vary = s.may_vary;
    }
    return all;
  });
}

double kernels_of_one(const Enqueue& enqueue, const std::string& what) {
  return Replays({enqueue}, 1, what).kernels_each();
}

// What is known of our kernel before it is timed in rounds
void describe(const Champion& unisono, const Case& c, const Ceilings& ceilings, Result& r) {
  r.sets = static_cast<int>(unisono.sets.size()), r.plan = plan_text(*unisono.variant),
  r.predicted_us = unisono.variant->lowered.plan().predicted_us;
  r.registers = unisono.built->resources.registers;
  r.spill_bytes = unisono.built->resources.spill_store_bytes + unisono.built->resources.spill_load_bytes;
  r.launches = kernels_of_one(unisono.sets.front(), c.name);
  r.floor_us = ceilings.floor_us(c.flop() * support::matrix_time(c.conv.dtype_x), c.bytes());
}

// The best engine of each vendor's library, if it is there; why not, otherwise
std::vector<VendorChampion> choose_vendors(std::vector<Vendor> all, bool present, Result& r) {
  std::vector<VendorChampion> vendors;
  for (const Vendor& v : all) {
    PeerResult& result = r.peers.emplace_back(PeerResult{.peer = v.peer, .time = {}, .engine = {}, .error = v.error});
    VendorChampion& champion = vendors.emplace_back();
    if (present) try {
        champion = choose_engine(v.engines(), v.peer);
        result.engine = champion.engine;
      } catch (const UserError& error) {
        result.error = error.what();
      }
  }
  return vendors;
}

// The fastest of each rival's plans
std::vector<Champion> choose_rivals(const Prepared& p, const Sets& sets, Result& r) {
  std::vector<Champion> rivals;
  for (const Prepared::Rival& rival : p.rivals) {
    PeerResult& result =
        r.peers.emplace_back(PeerResult{.peer = rival.name, .time = {}, .engine = {}, .error = rival.error});
    Champion& champion = rivals.emplace_back();
    if (rival.variants) try {
        std::vector<Tried> tried;
        champion = choose(*rival.variants, sets, p.c->name + ", " + rival.name, tried);
        result.engine = plan_text(*champion.variant);
      } catch (const Unsupported& error) {
        result.error = error.what();
      }
  }
  return rivals;
}

// What another program has of the case. One that fails is looked for anew at the next case
std::vector<PeerProgram::Ready> prepare_beside(const Case& c, const std::string& suite, Peers& peers,
                                               const Options& options, Result& r) {
  if (options.beside.empty()) return {};
  try {
    if (!peers.beside) peers.beside = std::make_unique<PeerProgram>(options.beside, options.beside_limit);
    PeerProgram::Case prepared = peers.beside->prepare(to_json(c), suite);
    for (const auto& [peer, why] : prepared.errors)
      r.peers.push_back({.peer = peer, .time = {}, .engine = {}, .error = why});
    return std::move(prepared.ready);
  } catch (const PeerFailed& error) {
    peers.beside.reset();
    r.peers.push_back({.peer = "beside", .time = {}, .engine = {}, .error = error.what()});
    return {};
  }
}

struct Contenders {
  const Champion& unisono;
  const std::optional<Champion>& bare;
  const std::vector<Replays*>& peers;  // the first of Result::peers; null: one that cannot run
  const std::vector<PeerProgram::Ready>& beside;
};

// The same kernel stands at both ends of a round: what differs between its two times is noise
void time_in_rounds(const Contenders& of, const Options& options, Result& r) {
  std::vector<Contender*> contenders{of.unisono.replays.get()};
  if (of.bare) contenders.push_back(of.bare->replays.get());
  for (Replays* peer : of.peers)
    if (peer != nullptr) contenders.push_back(peer);
  for (const PeerProgram::Ready& p : of.beside) contenders.push_back(p.contender.get());
  contenders.push_back(of.unisono.replays.get());
  const std::vector<Timing> times =
      measure(contenders, {options.rounds, options.replays, options.rest, options.pause, options.hot_rounds});
  r.unisono = times.front(), r.again = times.back();
  if (of.bare) r.bare = times[1];
  std::size_t next = of.bare ? 2 : 1;
  for (std::size_t i = 0; i < of.peers.size(); ++i)
    if (of.peers[i] != nullptr) r.peers[i].time = times[next++];
  for (const PeerProgram::Ready& p : of.beside) r.peers.push_back({p.peer, times[next++], "", "", p.compile_seconds});
}

// With the other program's contenders, or without them if it fails at one of its turns
void time_beside(const Contenders& all, Peers& peers, const Options& options, Result& r) {
  const Result before = r;
  try {
    time_in_rounds(all, options, r);
    if (peers.beside) peers.beside->release();
  } catch (const PeerFailed& error) {
    peers.beside.reset();
    r = before;
    time_in_rounds({all.unisono, all.bare, all.peers, {}}, options, r);
    for (const PeerProgram::Ready& p : all.beside)
      r.peers.push_back({.peer = p.peer, .time = {}, .engine = {}, .error = error.what()});
  }
}

void time_all(const Prepared& p, const std::string& suite, const Ceilings& ceilings, Peers& peers,
              const Options& options, Contest& contest) {
  const Case& c = *p.c;
  Result& r = contest.result;
  const Sets sets = make_sets(c, c.contraction(), c.graph, options.seed);
  const Champion unisono = choose(*p.variants, sets, c.name, r.tried);
  describe(unisono, c, ceilings, r);

  const Graph bare_of_case = bare_graph(c.conv.dtype_x);
  const bool has_vendor = options.cudnn && (c.product ? peers.cublaslt != nullptr : peers.cudnn != nullptr);
  const Sets bare_sets =
      (p.bare || has_vendor) && !c.is_bare() ? make_sets(c, c.bare_contraction(), bare_of_case, options.seed) : Sets{};
  std::optional<Champion> bare;
  if (p.bare)
    bare = choose(*p.bare, bare_sets, c.name + ", bare", r.bare_tried), r.bare_plan = plan_text(*bare->variant);
  std::vector<VendorChampion> vendors;
  if (options.cudnn) vendors = choose_vendors(vendors_of(c, peers, sets, bare_sets), has_vendor, r);
  const std::vector<Champion> rivals = choose_rivals(p, sets, r);
  std::vector<Replays*> timed;
  for (const VendorChampion& v : vendors) timed.push_back(v.replays.get());
  for (const Champion& v : rivals) timed.push_back(v.replays.get());
  const std::vector<PeerProgram::Ready> beside = prepare_beside(c, suite, peers, options, r);
  time_beside({unisono, bare, timed, beside}, peers, options, r);
  if (c.is_bare()) r.bare = r.unisono, r.bare_plan = r.plan;
  if (options.verify) contest.checking = start_checking(p, unisono, rivals, *sets.front());
}

}  // namespace

namespace {

Prepared::Rival prepare(const Rival& rival, const Case& c, const plan::Device& device) {
  Prepared::Rival p{rival.name, {}, {}};
  try {
    p.variants = variants_of(c.contraction(), c.graph, rival.plans, device);
  } catch (const UserError& error) {
    p.error = error.what();
  } catch (const Unsupported& error) {
    p.error = error.what();
  }
  return p;
}

}  // namespace

Prepared prepare(const Case& c, const plan::Device& device, const Options& options) {
  Prepared p{.c = &c, .variants = {}, .bare = {}, .error = {}, .rivals = {}};
  const int count = options.sweep ? 0 : options.plans;
  try {
    p.variants = variants_of(c.contraction(), c.graph, c.plan, device, count);
    if (options.bare && !c.is_bare())
      p.bare = variants_of(c.bare_contraction(), bare_graph(c.conv.dtype_x), "", device, count);
  } catch (const UserError& error) {
    p.error = error.what();
  } catch (const Unsupported& error) {
    p.error = error.what();
  }
  for (const Rival& rival : c.rivals) p.rivals.push_back(prepare(rival, c, device));
  return p;
}

void Contest::collect() {
  Judged judged = checking.get();
  result.checked = judged.own;
  for (PeerResult& peer : result.peers)
    if (const auto found = judged.rivals.find(peer.peer); found != judged.rivals.end()) peer.checked = found->second;
}

Contest run_contest(const Prepared& prepared, const std::string& suite, const Ceilings& ceilings, Peers& peers,
                    const Options& options) {
  Contest contest;
  contest.result.error = prepared.error;
  if (!prepared.error.empty()) return contest;
  try {
    time_all(prepared, suite, ceilings, peers, options, contest);
  } catch (const Error& error) {
    contest = {};
    contest.result.error = error.what();
    rethrow_if_broken(error);
  }
  return contest;
}

}  // namespace unisono::bench
