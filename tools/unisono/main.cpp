/// The `unisono` command: parses the command line, runs a subcommand, and turns errors into a message and an exit code.

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "command/arguments.hpp"
#include "command/commands.hpp"
#include "command/output.hpp"
#include "unisono/cancel.hpp"
#include "unisono/error.hpp"

namespace {

using namespace unisono;

/// As docs/command.md lists them.
enum ExitCode { failed = 1, wrong_input = 2, unsupported = 3, compiler_failed = 4, device_failed = 5, cancelled = 130 };

struct Dispatch {
  int operator()(const command::RunOptions& options) const { return command::run(options); }
  int operator()(const command::ExplainOptions& options) const { return command::explain(options); }
  int operator()(const command::DoctorOptions& options) const { return command::doctor(options); }
  int operator()(const command::DemoOptions& options) const { return command::demo(options); }
  int operator()(const command::CacheOptions& options) const { return command::cache(options); }
  int operator()(const command::PackOptions& options) const { return command::pack(options); }
  int operator()(const command::EmitOptions& options) const { return command::emit(options); }
  int operator()(const command::TuneOptions& options) const { return command::tune(options); }
  int operator()(const command::TrainOptions& options) const { return command::train(options); }
  int operator()(const bench::Options& options) const { return bench::run(options); }
};

int report(const char* kind, const char* message, int code) {
  command::warn(std::string("unisono: ") + kind + message);
  return code;
}

/// Errors of the system that a file is the cause of, as against threads or processes.
bool is_of_a_file(const std::error_code& code) {
  using enum std::errc;
  constexpr std::array all{no_space_on_device,
                           file_too_large,
                           read_only_file_system,
                           permission_denied,
                           operation_not_permitted,
                           no_such_file_or_directory,
                           not_a_directory,
                           is_a_directory,
                           filename_too_long,
                           too_many_symbolic_link_levels,
                           file_exists,
                           directory_not_empty,
                           io_error,
                           too_many_files_open,
                           too_many_files_open_in_system,
                           cross_device_link,
                           device_or_resource_busy,
                           no_such_device_or_address,
                           no_lock_available};
  return code == std::error_condition(EDQUOT, std::generic_category()) ||
         std::ranges::any_of(all, [&](std::errc one) { return code == one; });
}

int act(int argc, const char* const* argv) {
  const auto parsed = command::parse_arguments(argc, argv);
  int code = 0;
  if (const auto* answer = std::get_if<command::Answer>(&parsed)) {
    if (answer->wrong) return report("", answer->text.c_str(), wrong_input);
    command::print(answer->text);
  } else {
    code = std::visit(Dispatch{}, std::get<command::Arguments>(parsed));
  }
  command::finish_output();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // beyond a limit of files (ulimit -f) a write fails, and what is half written goes
  try {
    return act(argc, argv);
  } catch (const UserError& error) {
    return report("", error.what(), wrong_input);
  } catch (const Unsupported& error) {
    return report("not supported: ", error.what(), unsupported);
  } catch (const CompileError& error) {
    return report("compiler: ", error.what(), compiler_failed);
  } catch (const DeviceError& error) {
    return report("device: ", error.what(), device_failed);
  } catch (const Cancelled&) {
    return report("", "interrupted; nothing was written", cancelled);
  } catch (const InternalError& error) {
    return report("internal error, please report it: ", error.what(), failed);
  } catch (const std::bad_alloc&) {
    return report("", "out of memory", failed);
  } catch (const std::filesystem::filesystem_error& error) {
    return report("", (error.path1().string() + ": " + error.code().message()).c_str(), wrong_input);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::not_enough_memory) return report("", "out of memory", failed);
    if (is_of_a_file(error.code())) return report("", error.what(), wrong_input);
    if (error.code() == std::errc::resource_unavailable_try_again)
      return report("", "a limit of threads or processes is reached; give fewer --threads, or raise `ulimit -u`",
                    failed);
    return report("the operating system refuses: ", error.what(), failed);
  } catch (const std::exception& error) {
    return report("internal error, please report it: ", error.what(), failed);
  }
}
