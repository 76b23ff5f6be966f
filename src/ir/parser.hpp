#pragma once
/// Recursive descent over the text form, which drives a GraphBuilder. Statements are in parser.cpp, expressions in
/// parse_expression.cpp, calls in parse_call.cpp.

#include <algorithm>
#include <concepts>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/lexer.hpp"
#include "ir/source.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {

inline constexpr std::size_t largest_text = std::size_t{1} << 20;  ///< bytes
inline constexpr int deepest_nesting = 200;                        ///< parentheses, calls and prefix operators
inline constexpr std::size_t most_nodes = 100'000;

/// What is wrong with a form of a store (StoreForm) in an expression.
std::string stands_alone(std::string_view form);

struct CallArguments;
struct Parameter;

class Parser {
 public:
  Parser(std::string_view text, const std::vector<UserFunction>& functions);
  Graph run();

 private:
  // Statements
  void statement();
  void operand_declaration();
  void store_statement();
  std::optional<FormedValue> formed_value();
  struct StoredAs {
    Token place;  // where the name is, or the statement
    std::string name;
    DType type{};
  };
  StoredAs stored_as(const Token& start, std::string_view name, DType type);
  StoreOptions store_options();
  Value seed();
  void stands_alone_after(const Token& form) const;
  bool ends_statement() const;
  void assignment();
  void bare_call();
  void end_of_statement();
  std::string_view name_of_expression(std::size_t begin) const;
  std::string new_name(const Token& name, std::string_view what) const;
  [[noreturn]] void no_statement(const Token& first) const;

  // Expressions: `expression` takes binary operators of at least the binding power `lowest`
  Value expression(int lowest = 1);
  Value prefix();
  Value primary();
  Value name();
  Value accumulator();
  Value operand_use();
  struct Subscript {
    Axes axes;
    RowCoordinates rows = RowCoordinates::all;
  };
  Subscript subscript();
  Value constant();
  double signed_number(std::string_view what);
  DType dtype();
  Coordinate coordinate();
  [[noreturn]] void no_value(const Token& token) const;
  [[noreturn]] void unknown_name(const Token& name) const;

  // Calls
  std::optional<Value> call();
  Value value_of_call();
  Value cast_call(const Token& name);
  Value coordinate_call(const Token& name);
  std::optional<Value> user_call(const Token& name);
  Value operation_call(const Token& name, Op op);
  void positional_argument(CallArguments& arguments);
  void keyword_argument(CallArguments& arguments);
  void attribute_argument(CallArguments& arguments, const Parameter& parameter);
  bool number_alone() const;
  double number_argument(std::string_view name);
  void over_argument(ReduceDomain& domain);
  int groups_argument();
  [[noreturn]] void too_many_arguments(const Token& token, const CallArguments& arguments, std::size_t expected) const;
  [[noreturn]] void unknown_keyword(const Token& token, const CallArguments& arguments) const;
  [[noreturn]] void unknown_operation(const Token& name) const;

  // Tokens
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token take();
  std::string_view text(const Token& token) const { return source_.text(token.span); }
  bool at_symbol(std::string_view symbol, std::size_t ahead = 0) const;
  bool at_word(std::string_view word) const;
  bool accept(std::string_view symbol);
  void close(const Token& open, std::string_view symbol);
  Token identifier(std::string_view what);
  std::string found(const Token& token) const;
  [[noreturn]] void fail(const Token& token, std::string_view message) const { source_.fail(token.span, message); }

  // Counts one level of nesting while it lives
  class Nesting {
   public:
    Nesting(Parser& parser, const Token& token);
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    int& depth_;
  };

  // What `build` returns; an error that it throws gets the place of `token`
  template <std::invocable Build>
  auto located(const Token& token, Build build) const {
    try {
      return build();
    } catch (const UserError& error) {
      fail(token, error.what());
    }
  }
  void check_size(const Token& token) const;
  // `value`, unless the graph has grown too large
  Value counted(const Token& token, Value value) const;
  Value node(const Token& token, Op op, const std::vector<Value>& inputs, Attributes attr = {},
             std::optional<DType> requested = {});

  Source source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::set<std::string, std::less<>> functions_;
  const std::vector<UserFunction>& defined_;

  struct Named {
    Value value;
    Span place;  // where it appears first
  };
  // A graph and the names in it
  struct Scope {
    GraphBuilder builder;
    std::map<std::string, Named, std::less<>> values;
    std::map<std::string, Named, std::less<>> operands;
  };
  Scope scope_;
};

}  // namespace unisono::ir
