/// The `unisono` command: parses the command line, runs a subcommand, and turns errors into a message and an exit code.

#include <exception>
#include <new>
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
  int operator()(const bench::Options& options) const { return bench::run(options); }
};

int report(const char* kind, const char* message, int code) {
  command::warn(std::string("unisono: ") + kind + message);
  return code;
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
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again)
      return report("", "a limit of threads or processes is reached; give fewer --threads, or raise `ulimit -u`",
                    failed);
    return report("the operating system refuses: ", error.what(), failed);
  } catch (const std::exception& error) {
    return report("internal error, please report it: ", error.what(), failed);
  }
}
