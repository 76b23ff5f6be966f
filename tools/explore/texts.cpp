#include "explore/texts.hpp"

#include "explore/exploration.hpp"
#include "unisono/error.hpp"

namespace unisono::explore {
namespace {

std::string text_of(const nlohmann::json& data) {
  return data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string network_text(const Network& network, const std::string& title, const NetworkOptions& options,
                         const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  return text_of(explore(network, title, options, shapes));
}

std::string kernel_text(const Graph& graph, const std::optional<Contraction>& contraction,
                        const CompileOptions& options) {
  return text_of(explore(graph, contraction, options));
}

std::string page_text(const std::string& data) try {
  return page_of(laid_out(nlohmann::json::parse(data)));
} catch (const nlohmann::json::exception& error) {
  throw UserError(std::string("the data of a page to explore: ") + error.what());
}

}  // namespace unisono::explore
