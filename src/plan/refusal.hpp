#pragma once
/// How planning says no: with a reason, and an analysis with the text of the value at fault, too.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/error.hpp"
#include "unisono/graph.hpp"

namespace unisono::plan {

/// Why something does not serve what it is asked for. There is always a reason.
struct Refusal {
  enum class Scope : std::uint8_t {
    foreign,  ///< it is for other contractions: nothing that a user asks about
    device,   ///< it has no kernels for this device's architecture
    problem,  ///< nothing of its kind serves it
    plan,     ///< this one does not, another may
  } scope{};
  std::vector<std::string> reasons;  ///< each a rule and what breaks it: "size: …"

  /// The rule that a plan breaks, by which reports group refusals.
  struct Rule {
    std::string_view text = {};        ///< as the reason reads before its values are filled in; empty: of no plan
    double wanted = 0, available = 0;  ///< if it limits something: what the plan needs, and what there is
    /// How far the plan is from legal: 1 is the limit; 0 if the rule limits nothing.
    double excess() const { return available > 0 ? wanted / available : 0; }
  } rule = {};

  /// The same refusal, by a rule that limits something.
  Refusal exceeding(double wanted, double available) &&;

  std::string text() const;  ///< a line each
  const std::string& first() const { return reasons.front(); }
};

/// A refusal of the problem.
Refusal because(std::string reason);

/// "h = acc + bias[n]": the value as the text form writes it.
std::string text_of(const Graph& graph, ValueId id);

/// What is thrown where a refusal ends an analysis or a choice: its text is for people, its refusal for callers to whom
/// a refusal is an answer.
class Refused : public Unsupported {
 public:
  explicit Refused(Refusal refusal) : Refused(refusal, refusal.text()) {}
  Refused(Refusal refusal, const std::string& text) : Unsupported(text), refusal_(std::move(refusal)) {}
  const Refusal& refusal() const { return refusal_; }

 private:
  Refusal refusal_;
};

/// What an error says no with: what a Refused carries, else the error's text as the one reason.
Refusal refusal_of(const Unsupported& error);

/// Why kernels do not have a value: the reason, with the value as text_of() writes it.
Refusal refusal_at(const Graph& graph, ValueId id, const std::string& reason);
/// Throws it, as Refused.
[[noreturn]] void refuse(const Graph& graph, ValueId id, const std::string& reason);

}  // namespace unisono::plan
