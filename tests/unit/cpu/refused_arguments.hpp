#pragma once
/// Arguments of an executable that are not as they should be.

#include <functional>
#include <string>

#include "unisono/error.hpp"
#include "unit/cpu/problem.hpp"

namespace unisono::test {

/// A problem whose arguments are right, and what a run says of others.
class RefusedArguments : public ::testing::Test {
 protected:
  RefusedArguments(const Contraction& contraction, const std::string& text) : c(problem(contraction, text)) {}

  RandomCase c;
  Executable kernel = compile(c.contraction, c.graph, options_of(c, 1));

  /// "accepted", or what the error says that the changed arguments cause; nothing is then written.
  std::string refusal(const std::function<void(Arguments&)>& change) {
    Arguments arguments = c.arguments;
    change(arguments);
    poison_outputs(c);
    const std::string before = output_bytes(c);
    std::string text = "accepted";
    try {
      kernel.run(arguments);
    } catch (const UserError& e) {
      text = e.what();
      EXPECT_EQ(output_bytes(c), before) << "something was written";
    }
    return text;
  }
};

}  // namespace unisono::test
