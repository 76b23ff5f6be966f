#include <zlib.h>

#include <array>
#include <cstdint>

#include "explore/exploration.hpp"
#include "figure/svg.hpp"
#include "unisono/error.hpp"

namespace unisono::explore {

extern const char* const page_html;    // page.html, with @TITLE@, @STYLE@, @HEADING@, @DATA@ and @SCRIPT@
extern const char* const page_style;   // page.css
extern const char* const page_script;  // values.js to page.js

namespace {

/// In zlib's format, which DecompressionStream("deflate") reads.
std::string deflated(const std::string& text) {
  uLongf bytes = compressBound(static_cast<uLong>(text.size()));
  std::string packed(bytes, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(packed.data()), &bytes,
                               reinterpret_cast<const Bytef*>(text.data()), static_cast<uLong>(text.size()), 9);
  if (status != Z_OK) throw InternalError("zlib's compress2 failed: " + std::to_string(status));
  packed.resize(bytes);
  return packed;
}

std::string base64(const std::string& bytes) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) text += j <= count ? digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

void put(std::string& page, std::string_view mark, std::string_view text) {
  const std::size_t at = page.find(mark);
  if (at == std::string::npos) throw InternalError("page.html lacks " + std::string(mark));
  page.replace(at, mark.size(), text);
}

}  // namespace

std::string page_of(const nlohmann::json& data) {
  const std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string page = page_html;
  put(page, "@DATA@", base64(deflated(text)));
  put(page, "@STYLE@", page_style);
  put(page, "@SCRIPT@", page_script);
  const std::string title = figure::xml_escaped(data.at("title").get<std::string>());
  put(page, "@TITLE@", title);
  put(page, "@HEADING@", title);
  return page;
}

}  // namespace unisono::explore
