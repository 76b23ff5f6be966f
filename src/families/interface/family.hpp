#pragma once
/// A family of kernels: what it serves, by which plans, how fast, and by which text.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/codegen.hpp"
#include "families/interface/override.hpp"
#include "families/interface/parameters.hpp"
#include "families/interface/plan.hpp"
#include "plan/as_convolution.hpp"
#include "plan/device.hpp"
#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "plan/refusal.hpp"

namespace unisono::families {

/// What a plan is wanted for.
struct Workload {
  Workload(const plan::ConvTask& t, const plan::Forms& f, const plan::Device& d)
      : task(t), epilogue(f.list.front()), device(d), forms(f.list), not_streamed(f.not_streamed) {}
  Workload(const plan::ConvTask& t, const plan::Epilogue& e, const plan::Device& d)
      : task(t), epilogue(e), device(d), forms(&e, 1) {}
  const plan::Epilogue& form_of(const Plan& plan) const { return forms[plan.form]; }

  const plan::ConvTask& task;
  const plan::Epilogue& epilogue;  ///< the first form
  const plan::Device& device;
  std::span<const plan::Epilogue> forms;
  std::string_view not_streamed = {};  ///< plan::Forms::not_streamed
};

/// What a kernel was generated for, and what it reads.
struct Launched {
  const plan::ConvTask& task;
  const plan::Epilogue& epilogue;
  const codegen::Kernel& kernel;
};

/// Why a kernel does not serve a workload. Foreign: the family is for other contractions.
using plan::Refusal;

/// A plan, or why it is none.
struct Candidate {
  PlanPointer plan;
  std::optional<Refusal> refusal = {};

  bool is_legal() const { return !refusal; }
};

/// A kernel's text for somebody else's build, and the declarations of its host functions.
struct Standalone {
  std::string source, header;
};

/// Compute capabilities whose GPUs run a family's kernels.
struct Capability {
  int major = 9, minor = 0;
  bool and_later = false;
};

class Family {
 public:
  virtual ~Family() = default;
  /// The name of its folder, and of `family=` in a plan's text.
  virtual std::string_view name() const = 0;
  /// It serves what no other family does there, but far slower: another family's contraction and a second launch for
  /// the epilogue are faster. An override selects among higher-priority families unless it names this family.
  virtual bool is_last_resort(const plan::Device&) const { return false; }
  /// It is asked only if a plan's text names it by `family=`: it is never selected implicitly.
  virtual bool has_to_be_named() const { return false; }

  /// Where its kernels run, compiled for the GPU at hand; unless it is said, Hopper alone.
  virtual Capability capability() const { return {}; }

  /// Whether it multiplies one matrix, or image, by two filters in one kernel there, which is faster than two of them.
  virtual bool multiplies_two(const plan::Device&) const { return false; }

  /// The fields of its plans as text, in the order in which they are written; `family` is everybody's.
  virtual std::span<const plan::PlanField> fields() const { return {}; }
  /// Throws UserError for values of its fields that contradict each other, whatever the workload.
  virtual void check(const PlanOverride&) const {}

  /// Why no plan of the family serves the workload; nothing: some may. Throws UserError for a workload that is wrong.
  virtual std::optional<Refusal> can_implement(const Workload& workload) const = 0;
  /// The plans that `fixed`, whose fields are among fields(), leaves: legal ones first, the fastest predicted first.
  /// For workloads that can_implement() does not refuse.
  virtual std::vector<Candidate> candidates(const Workload& workload, const PlanOverride& fixed) const = 0;
  /// Predicted microseconds of a launch by graph replay, with operands that are in no cache.
  virtual double cost(const Plan& plan, const Workload& workload) const = 0;
  /// The kernel's text, of an epilogue whose operands codegen::refuse_operands() does not refuse. Throws UserError for
  /// a user function without text.
  virtual codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                                   const codegen::Options& options) const = 0;

  /// The kernel as files that need nothing of Unisono's, of a family whose text is a library for the host; `name` goes
  /// ahead of the names of its functions. Other families refuse: their files are src/emit/'s.
  virtual plan::Expected<Standalone> standalone(const Plan& plan, const Launched& what, std::string_view name) const;

  /// Bytes of the kernel's one parameter; refuses an epilogue that reads more than fits there.
  virtual plan::Expected<std::size_t> parameter_bytes(const Plan& plan, const codegen::Kernel& kernel) const = 0;
  /// What the parameter of every launch holds, whatever memory it is bound to.
  virtual ParameterBytes constants(const Plan& plan, const Launched& what) const = 0;
  /// Fills in what depends on memory, but for the workspace. Throws Unsupported for tensors that the plan does not
  /// take.
  virtual void fill(Parameter& to, const Plan& plan, const Launched& what, const Tensors& tensors) const = 0;
  /// Fills in the addresses of a workspace that begins at `base`.
  virtual void place_workspace(ParameterBytes& to, const Plan& plan, const plan::Epilogue& epilogue,
                               std::uint64_t base) const = 0;

  /// Where the parameter holds tensor maps of the workspace, `ahead` bytes from its beginning: what places it has the
  /// driver move them there.
  virtual std::vector<Site> workspace_maps(const Plan&) const { return {}; }

  /// The configuration in a few words: "128x160/5+3 pingpong resident".
  virtual std::string title(const Plan& plan) const = 0;
  /// The same with the launch: "…, 104 CTAs of 384 threads, 229 KB".
  virtual std::string describe(const Plan& plan) const = 0;
  /// Why the plan is as it is, lines for `unisono explain`: "loads: …".
  virtual std::string reasons(const Plan& plan, const Workload& workload) const = 0;
  /// All fields of the configuration: among candidates() they leave that one.
  virtual PlanOverride override_of(const Plan& plan) const = 0;
  /// Alike for plans that differ in details only: the tuner tries one of each kind first.
  virtual std::string kind(const Plan& plan) const = 0;
};

/// What the plan's family says of it (Family::title, describe); override_of() names the family too.
std::string title(const Plan& plan);
std::string describe(const Plan& plan);
PlanOverride override_of(const Plan& plan);

}  // namespace unisono::families
