#pragma once
/// The one place that reads the environment.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace unisono::support {

/// The folders of PATH, in order.
std::vector<std::filesystem::path> executable_folders();

/// The folder for what Unisono keeps between runs: $XDG_CACHE_HOME/unisono, else $HOME/.cache/unisono; nothing if
/// neither variable is set.
std::optional<std::filesystem::path> cache_folder();

/// The folder of compiled kernels: $UNISONO_CACHE_DIR, else kernels/ of cache_folder().
std::optional<std::filesystem::path> kernel_cache_folder();

/// Folders of kernels that were compiled ahead, in order: those of $UNISONO_PACKS, then that of
/// installed_pack_folder().
std::vector<std::filesystem::path> kernel_pack_folders();

/// share/unisono/kernels of the prefix that `binary` (the library, or a program that contains it) is installed in;
/// nothing unless it lies in that prefix's folder for libraries or for programs. It need not exist.
std::optional<std::filesystem::path> installed_pack_folder(const std::filesystem::path& binary);

/// $HOME, if it is set to an absolute path.
std::optional<std::filesystem::path> home_folder();

/// A variable that a compiler reads; nothing if it is unset or empty.
std::optional<std::string> compiler_variable(const char* name);

/// The file of plans that were measured on this machine: $UNISONO_TUNING, else tuning.db in cache_folder(); nothing if
/// UNISONO_TUNING is "off", or neither is set.
std::optional<std::filesystem::path> tuning_file();

/// $UNISONO_PLAN_AS: the GPU at hand is planned for as this product, to test kernels of another one.
std::optional<std::string> planned_as();

/// UNISONO_TUNING is "off": no measured plans, not even those in the library.
bool tuning_is_off();

/// UNISONO_GRAPH: how a network's launches become a CUDA graph.
std::string graph_way();

/// UNISONO_FILTERS_AHEAD: whether kernels of networks load constant filters before the launches ahead have ended.
std::string filters_ahead_wanted();

/// UNISONO_HOST_STEPS: operators of networks on a GPU that are to run on the host, "gather,floor".
std::vector<std::string> host_operators();

/// $XDG_RUNTIME_DIR, if it is set to an absolute path: of this host, this user and this session.
std::optional<std::filesystem::path> session_folder();

/// $TMPDIR, else /tmp.
std::filesystem::path temporary_files_folder();

/// Where CUDA toolkits may be, in order: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda. They need not exist.
std::vector<std::filesystem::path> cuda_folders();

/// $UNISONO_CUTLASS: a folder of CUTLASS; nothing if it is unset.
std::optional<std::filesystem::path> cutlass_folder();

/// $UNISONO_CUDNN: cuDNN's library, or its folder; nothing if it is unset.
std::optional<std::filesystem::path> cudnn_library();

/// UNISONO_ATTENTION: which kernels compute the attention of networks on a GPU.
std::string attention_wanted();

/// The folders of LD_LIBRARY_PATH, in order.
std::vector<std::filesystem::path> library_folders();

}  // namespace unisono::support
