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

  std::string message = {};  ///< the same with what was asked for; empty: text()

  /// The same refusal, by a rule that limits something.
  Refusal exceeding(double wanted, double available) &&;

  std::string text() const;  ///< a line each
  /// What a user is told where the refusal ends what was asked for.
  std::string told() const { return message.empty() ? text() : message; }
  const std::string& first() const { return reasons.front(); }
};

/// A refusal of the problem.
Refusal because(std::string reason);

/// "h = acc + bias[n]": the value as the text form writes it.
std::string text_of(const Graph& graph, ValueId id);

/// What users of the library catch where a refusal ends what they asked for. Steps on the way down return theirs
/// (expected.hpp); none is thrown to be caught again.
class Refused : public Unsupported {
 public:
  explicit Refused(Refusal refusal) : Unsupported(refusal.told()), refusal_(std::move(refusal)) {}
  const Refusal& refusal() const { return refusal_; }

 private:
  Refusal refusal_;
};

/// Why kernels do not have a value: the reason, with the value as text_of() writes it.
Refusal refusal_at(const Graph& graph, ValueId id, const std::string& reason);

}  // namespace unisono::plan
