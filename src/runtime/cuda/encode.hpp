#pragma once
/// Tensor maps in the driver's encoding, and arguments that are moved.

#include <cstdint>
#include <span>

#include "families/interface/parameters.hpp"

namespace unisono::cuda {

/// Encodes tensor maps in their places of a parameter, with the device's context current. Throws DeviceError with the
/// shape that the driver refused.
void encode_maps(std::span<const families::Parameter::Map> maps, std::span<std::byte> parameter);

/// Puts another address, or the bits of another number, where a site says. Throws DeviceError.
void move_site(families::ParameterBytes& parameters, const families::Site& site, const void* data);
void move_site(families::ParameterBytes& parameters, const families::Site& site, std::uint64_t bits);

}  // namespace unisono::cuda
