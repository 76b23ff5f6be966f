#pragma once
/// Fusion and memory of a network, for tables and JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "unisono/network.hpp"

namespace unisono::command {

/// One line a region: number, contraction, what follows it in the same kernel.
std::string region_table(const FusionReport& report);

/// Three lines.
std::string memory_text(const MemoryReport& memory);

nlohmann::json to_json(const FusionReport& report);
/// A kernel's number (network::KernelNumbers); null for what belongs to none.
nlohmann::json number_or_null(int kernel);
nlohmann::json to_json(const MemoryReport& memory);

/// "3.4 MiB", "17 KiB".
std::string bytes_text(std::size_t bytes);

}  // namespace unisono::command
