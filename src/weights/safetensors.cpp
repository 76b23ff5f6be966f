#include "unisono/safetensors.hpp"

#include <fmt/format.h>

#include <unordered_map>

#include "unisono/error.hpp"
#include "weights/byte_source.hpp"
#include "weights/safetensors_header.hpp"

namespace unisono {

namespace {

constexpr std::uint64_t length_bytes = 8;  // the header's length, little endian

std::uint64_t header_length(const weights::ByteSource& source, const std::string& name,
                            const SafetensorsLimits& limits) {
  if (source.size() < length_bytes)
    throw UserError(
        fmt::format("'{}' is not a safetensors file: it has {} bytes; expected 8 or more", name, source.size()));
  std::uint64_t length = 0;
  const auto bytes = source.read(0, length_bytes);
  for (std::size_t i = bytes.size(); i-- > 0;) length = length << 8 | static_cast<std::uint64_t>(bytes[i]);
  if (length > limits.header_bytes)
    throw UserError(
        fmt::format("'{}' is not a safetensors file, or is damaged: its header has {} bytes; the limit is {}", name,
                    length, limits.header_bytes));
  if (length > source.size() - length_bytes)
    throw UserError(
        fmt::format("'{}' is cut short: its header has {} bytes, and the file {}", name, length, source.size()));
  return length;
}

}  // namespace

class SafetensorsImpl {
 public:
  SafetensorsImpl(std::unique_ptr<weights::ByteSource> source, std::string name, const SafetensorsLimits& limits)
      : source_(std::move(source)), name_(std::move(name)) {
    const std::uint64_t length = header_length(*source_, name_, limits);
    data_ = length_bytes + length;
    const auto bytes = source_->read(length_bytes, length);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    header_ = weights::parse_safetensors_header(text, source_->size() - data_, name_, limits);
    for (std::size_t i = 0; i < header_.entries.size(); ++i) places_[header_.entries[i].name] = i;
  }

  const std::string& name() const { return name_; }
  const weights::SafetensorsHeader& header() const { return header_; }
  const SafetensorsEntry* find(std::string_view tensor) const {
    const auto found = places_.find(tensor);
    return found == places_.end() ? nullptr : &header_.entries[found->second];
  }
  std::vector<std::byte> read(const SafetensorsEntry& e) const {
    if (e.begin > e.end || e.end > source_->size() - data_)
      throw UserError(fmt::format("'{}': [{}, {}] is outside its data", name_, e.begin, e.end));
    return source_->read(data_ + e.begin, e.end - e.begin);
  }

 private:
  std::unique_ptr<weights::ByteSource> source_;
  std::string name_;
  weights::SafetensorsHeader header_;
  std::unordered_map<std::string_view, std::size_t> places_;  // in header_.entries, whose names it refers to
  std::uint64_t data_ = 0;                                    // where the elements begin
};

const std::string& Safetensors::name() const { return impl_->name(); }
const std::vector<SafetensorsEntry>& Safetensors::entries() const { return impl_->header().entries; }
const SafetensorsEntry* Safetensors::find(std::string_view tensor) const { return impl_->find(tensor); }
const std::map<std::string, std::string>& Safetensors::metadata() const { return impl_->header().metadata; }
std::vector<std::byte> Safetensors::read(const SafetensorsEntry& entry) const { return impl_->read(entry); }

Safetensors open_safetensors(const std::string& path, const SafetensorsLimits& limits) {
  return Safetensors(std::make_shared<const SafetensorsImpl>(weights::open_source(path), path, limits));
}

Safetensors parse_safetensors(std::vector<std::byte> file, const std::string& name, const SafetensorsLimits& limits) {
  return Safetensors(std::make_shared<const SafetensorsImpl>(weights::memory_source(std::move(file)), name, limits));
}

}  // namespace unisono
