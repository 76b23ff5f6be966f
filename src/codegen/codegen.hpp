#pragma once
/// What a generated kernel is. Families of kernels write theirs (src/families/); the visitor of an epilogue is written
/// here. Pure: the same input gives the same text.

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "unisono/graph.hpp"

namespace unisono::codegen {

/// One 8-byte field of the visitor's Params, which follow ConvParams in the kernel's parameter.
struct Field {
  enum class Kind : std::uint8_t {
    operand_pointer,  ///< device address of an operand's memory
    operand_value,    ///< a scalar operand by value in the low four bytes: float, or int for i32 and bool (0 or 1)
    store_pointer,    ///< device address of an output that does not go through TMA
    extent,           ///< the extent of `coordinate`, as int in the low four bytes; of n: the channels of the output
    pitch,            ///< elements from image to image of an operand [b,n] of Options::apart, as int
    operand_step,     ///< an operand that does not lie as the output does: elements from one image (`coordinate` b),
                      ///< image row (h), pixel (w) or column (n) to the next, as a 64-bit integer
    store_step,       ///< the same of a strided store
    operand_vectors,  ///< whether its neighbouring columns can be loaded together: 0 or 1
    pointer,          ///< device address that user functions have captured
  } kind{};
  std::string name;  ///< the operand's or the store's; empty for an extent
  DType dtype{};     ///< in memory
  Axes axes;
  Coordinate coordinate{};  ///< extent, step: which
  RowCoordinates rows{};    ///< operand_pointer: those of its rows that it has in memory
  bool strided = false;     ///< operand_pointer, store_pointer: it may have any strides
};

/// The text is a library's for the host, which launches its own kernel. Extern "C", with the kernel's `entry` as
/// prefix: unsigned long long …_parameter_bytes(); int …_run(const void* parameter, void* stream), 0 if it was
/// enqueued; const char* …_text(int), what another result means.
struct Library {
  std::string arch;  ///< that its kernels are compiled for, whatever the device's: "sm_90a"
  bool operator==(const Library&) const = default;
};

struct Kernel {
  std::string source;  ///< a whole translation unit; includes <unisono/…> headers only, a library CUTLASS's too
  std::string entry;   ///< name of the kernel, extern "C"
  std::vector<Field> fields;
  std::optional<Library> library = {};  ///< absent: the text is a kernel's, which the driver launches
};

struct Options {
  bool accurate = false;  ///< correctly rounded transcendental functions even for 16-bit outputs
  bool watchdog = false;  ///< a wait that lasts some seconds ends the launch with an error
  bool delays = false;    ///< random delays before each publish, wait and store: for tests
  std::map<std::string, DType> storage =
      {};  ///< storage dtypes of operands that the graph does not declare; absent: f32
  std::set<std::string> scalar_pointers = {};  ///< scalar operands in device memory; the others are passed by value
  std::set<std::string> apart = {};  ///< operands [b,n] whose images may lie further apart than they have columns
  bool filters_ahead = false;  ///< no launch writes the filter: it may be loaded before the launches ahead have ended
};

/// A header that holds an epilogue for a kernel of somebody else's (kernels/unisono/epilogue/element.cuh).
struct VisitorHeader {
  std::string source;
  std::vector<Field> fields;       ///< those of Params, in order
  std::vector<std::size_t> named;  ///< stores of 16 bits that the kernel addresses itself: main, then side
};

/// Why no visitor reads the epilogue's operands as they lie in memory.
std::optional<plan::Refusal> refuse_operands(const plan::Epilogue& epilogue, const Options& options);

/// Within `namespace unisono::name`. Refuses a normalisation, reductions and what refuse_operands() does.
plan::Expected<VisitorHeader> visitor_header(const plan::Epilogue& epilogue, std::string_view name,
                                             const Options& options = {});

/// The device headers that generated code includes, by name ("unisono/sm90/conv_fprop.cuh"), with their text.
struct Header {
  std::string_view name, text;
};
std::span<const Header> device_headers();

}  // namespace unisono::codegen
