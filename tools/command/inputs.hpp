#pragma once
/// Arrays from files, or random ones, as inputs of a network.

#include <optional>
#include <string>
#include <vector>

#include "command/arguments.hpp"
#include "command/execution.hpp"
#include "command/model.hpp"
#include "media/npz.hpp"

namespace unisono::command {

/// Inputs of the dtypes that the network takes.
struct Inputs {
  Tensors tensors;
  std::vector<std::string> notes;  ///< one for every conversion
};

/// Reads .npy and .npz files and binds them: to the input that is named, or to the only one, or (of .npz) every member
/// to the input of its name. Elements are converted as media::convert says. Throws UserError, which lists the model's
/// inputs, for one that is missing, unknown or given twice, and for another shape.
Inputs read_inputs(const std::vector<InputFile>& files, const Network& network);

/// What a file holds: of a .npy file one array without a name; `archive` says whether it is a .npz file.
media::NamedArrays read_arrays(const std::filesystem::path& path, bool& archive);

/// The number of `--input NAME=NUMBER`; none for a file.
std::optional<double> number_of(const InputFile& input);

/// A scalar of that dtype, to which a float is rounded. Throws UserError, which names the input, where the dtype lacks
/// the number.
media::Array scalar_array(double number, DType dtype, const std::string& name);

/// Random numbers for every input that options.inputs gives no number, see random_array.
Inputs random_inputs(const RunOptions& options, const Network& network);

/// "x: float32 (batch,3,64,64)", one line an input.
std::string input_list(const Network& network);

}  // namespace unisono::command
