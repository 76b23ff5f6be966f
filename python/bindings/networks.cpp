/// Networks from ONNX files: compile, run, enqueue, reports.

#ifdef UNISONO_EXPLORE
#include "explore/texts.hpp"
#endif
#include <mutex>

#include "options.hpp"
#include "tensors.hpp"

namespace unisono::python {
namespace {

using namespace nb::literals;
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

struct PythonNetwork {
  NetworkExecutable executable;
  Place place;
  NetworkOptions options;
};

#ifdef UNISONO_EXPLORE
void bind_explore(nb::class_<PythonNetwork>& network) {
  network.def(
      "explore",
      [](const PythonNetwork& self, const Shapes& inputs) {
        const Network& given = self.executable.network();
        return explore::network_text(given, given.name, self.options, inputs);
      },
      "inputs"_a, nb::call_guard<nb::gil_scoped_release>(),
      "What a page to explore shows of the network for these input shapes, as JSON. Compiles nothing.");
}
#else
void bind_explore(nb::class_<PythonNetwork>&) {}
#endif

/// A run whose tensors are known but for their addresses. Several threads may run it at once.
class PythonRun {
 public:
  PythonRun(const PythonNetwork& network, const Named& inputs, const Named& outputs)
      : executable_(network.executable), device_(network.place.device) {
    BoundTensors bound(network.place);
    form_ = {read_all(bound, inputs), write_all(bound, outputs)};
    for (const auto& [name, tensor] : inputs) inputs_.push_back(nb::cast<std::string>(name));
    for (const auto& [name, tensor] : outputs) outputs_.push_back(nb::cast<std::string>(name));
  }

  void run_at(const nb::list& addresses, std::uintptr_t stream) {
    const std::size_t expected = inputs_.size() + outputs_.size();
    if (addresses.size() != expected)
      throw UserError("a prepared run was given " + std::to_string(addresses.size()) + " addresses; expected " +
                      std::to_string(expected));
    std::unique_ptr<Views> views = idle_views();
    const auto address = [&](std::size_t i) { return nb::cast<std::uintptr_t>(addresses[i]); };
    for (std::size_t i = 0; i < inputs_.size(); ++i) *views->read[i] = reinterpret_cast<const void*>(address(i));
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      *views->written[i] = reinterpret_cast<void*>(address(inputs_.size() + i));
    nb::gil_scoped_release unlocked;
    if (device_ == Device::cpu)
      executable_.run(views->form.inputs, views->form.outputs);
    else
      executable_.enqueue(views->form.inputs, views->form.outputs, reinterpret_cast<Stream>(stream));
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(views));
  }

 private:
  struct Form {
    std::map<std::string, ConstTensorView> inputs;
    std::map<std::string, TensorView> outputs;
  };
  /// The tensors of one run, and where their addresses stand, in the caller's order.
  struct Views {
    Form form;
    std::vector<const void**> read;
    std::vector<void**> written;
  };

  /// Those of a run that is over, or new ones.
  std::unique_ptr<Views> idle_views() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Views> views = std::move(idle_.back());
        idle_.pop_back();
        return views;
      }
    }
    auto views = std::make_unique<Views>(Views{form_, {}, {}});
    for (const std::string& name : inputs_) views->read.push_back(&views->form.inputs.at(name).data);
    for (const std::string& name : outputs_) views->written.push_back(&views->form.outputs.at(name).data);
    return views;
  }

  NetworkExecutable executable_;
  Device device_;
  Form form_;
  std::vector<std::string> inputs_, outputs_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Views>> idle_;
};

void bind_prepared_run(nb::module_& m, nb::class_<PythonNetwork>& network) {
  nb::class_<PythonRun>(m, "PreparedRun", "A run of a network, without the addresses of its tensors.")
      .def("run", &PythonRun::run_at, "addresses"_a, "stream"_a = 0,
           "addresses: of inputs, then of outputs, in the order in which they were given. Runs and waits; on a GPU, "
           "enqueues on the stream, a cudaStream_t as a number.");
  network.def(
      "prepare",
      [](const PythonNetwork& self, Named inputs, Named outputs) { return new PythonRun(self, inputs, outputs); },
      "inputs"_a, "outputs"_a,
      "The run of tensors of these shapes, strides and dtypes, {name: tensor}, wherever they are.");
}

OptionField<NetworkOptions> attention_field() {
  return {[](NetworkOptions& options, nb::handle value) {
            const std::map<std::string, AttentionKernels> all{{"auto", AttentionKernels::automatic},
                                                              {"own", AttentionKernels::own},
                                                              {"cudnn", AttentionKernels::cudnn}};
            std::string name;
            const auto found = nb::try_cast(value, name, true) ? all.find(name) : all.end();
            if (found != all.end()) options.attention = found->second;
            return found != all.end();
          },
          "'auto', 'own' or 'cudnn'"};
}

OptionField<NetworkOptions> weights_field() {
  return {[](NetworkOptions& options, nb::handle value) {
            std::vector<std::string> names;
            const bool given = nb::try_cast(value, names, true);
            options.weights = {names.begin(), names.end()};
            return given;
          },
          "a list of names of inputs"};
}

NetworkOptions options_of(const nb::kwargs& keywords) {
  using O = NetworkOptions;
  static const OptionFields<O> fields{
      {"device", field(&O::device)},       {"device_index", field(&O::device_index)},
      {"threads", field(&O::threads)},     {"layout", field(&O::layout)},
      {"fuse", field(&O::fuse)},           {"cached_plans", field(&O::cached_plans)},
      {"precision", field(&O::precision)}, {"tuned", field(&O::tuned)},
      {"spare_sms", field(&O::spare_sms)}, {"watchdog", field(&O::watchdog)},
      {"strict", field(&O::strict)},       {"attention", attention_field()},
      {"weights", weights_field()},        {"short_products", field(&O::short_products)}};
  return read_options("compile_network", fields, keywords);
}

std::vector<std::string> names_of(const Network& network, const std::vector<TensorId>& ids) {
  std::vector<std::string> names;
  for (const TensorId id : ids) names.push_back(network[id].name);
  return names;
}

void bind_run(nb::class_<PythonNetwork>& network) {
  network
      .def(
          "run",
          [](const PythonNetwork& self, Named inputs, Named outputs) {
            BoundTensors bound({self.place.device, self.place.device_index, true});
            const auto read = read_all(bound, inputs);
            const auto written = write_all(bound, outputs);
            nb::gil_scoped_release unlocked;
            self.executable.run(read, written);
          },
          "inputs"_a, "outputs"_a,
          "Runs the network and waits. inputs, outputs: {name: tensor}; outputs have the shapes of output_shapes().")
      .def(
          "enqueue",
          [](const PythonNetwork& self, Named inputs, Named outputs, std::uintptr_t stream) {
            BoundTensors bound(self.place);
            const auto read = read_all(bound, inputs);
            const auto written = write_all(bound, outputs);
            nb::gil_scoped_release unlocked;
            self.executable.enqueue(read, written, reinterpret_cast<Stream>(stream));
          },
          "inputs"_a, "outputs"_a, "stream"_a,
          "GPU only: enqueues one run on the stream, a cudaStream_t as a number, and does not wait.");
}

nb::dict dictionary_of(const PackReport& report) {
  nb::dict found;
  found["folder"] = report.folder.string();
  found["requested"] = report.requested, found["compiled"] = report.compiled, found["entries"] = report.entries;
  found["bytes"] = report.bytes;
  return found;
}

void bind_pack(nb::module_& m) {
  m.def(
      "pack_network",
      [](const Network& network, const Shapes& inputs, const std::string& folder, int jobs, nb::kwargs keywords) {
        const NetworkOptions options = options_of(keywords);
        PackReport report;
        {
          nb::gil_scoped_release unlocked;
          report = pack(network, options, inputs, folder, {.jobs = jobs, .progress = {}});
        }
        return dictionary_of(report);
      },
      "network"_a, "inputs"_a, "folder"_a, "jobs"_a = 0, "options"_a,
      nb::sig("def pack_network(network: Network, inputs: Mapping[str, Sequence[int]], folder: str, jobs: int = 0, "
              "**options: object) -> dict[str, str | int]"),
      "Compiles the network's kernels for an H200 and these input shapes ({name: shape}) into a folder, for machines "
      "without a compiler. Needs no GPU. jobs: compilations at once (0: one per core). options: those of "
      "compile_network(). Returns {'folder', 'requested', 'compiled', 'entries', 'bytes'}. Raises UserError, "
      "Unsupported and CompileError.");
}

}  // namespace

void bind_networks(nb::module_& m) {
  bind_pack(m);
  nb::class_<Network>(m, "Network", "A network: its tensors, and its operators in execution order.")
      .def("__str__", [](const Network& n) { return to_string(n); })
      .def_ro("name", &Network::name)
      .def_prop_ro("inputs", [](const Network& n) { return names_of(n, n.inputs); })
      .def_prop_ro("outputs", [](const Network& n) { return names_of(n, n.outputs); });
  nb::class_<PythonNetwork> network(
      m, "NetworkExecutable",
      "A compiled network. Several threads may run it at once. Each set of input shapes is planned at "
      "its first run.");
  bind_run(network);
  bind_prepared_run(m, network);
  bind_explore(network);
  network
      .def(
          "output_shapes",
          [](const PythonNetwork& self, const Shapes& inputs) { return self.executable.output_shapes(inputs); },
          "inputs"_a, nb::call_guard<nb::gil_scoped_release>(), "{name: shape} of the outputs for these input shapes.")
      .def(
          "host_steps",
          [](const PythonNetwork& self, const Shapes& inputs) { return self.executable.host_steps(inputs); },
          "inputs"_a, nb::call_guard<nb::gil_scoped_release>(),
          "GPU only: the operators that run on the host, each with the reason.")
      .def(
          "workspace_bytes",
          [](const PythonNetwork& self, const Shapes& inputs) { return self.executable.workspace_bytes(inputs); },
          "inputs"_a, nb::call_guard<nb::gil_scoped_release>(),
          "GPU only: bytes of device memory for one run in flight.")
      .def_prop_ro(
          "kernels", [](const PythonNetwork& self) { return self.executable.report().kernels; },
          "Regions that are not free.")
      .def(
          "report", [](const PythonNetwork& self) { return to_string(self.executable.report()); },
          "Which operators were fused, and why others were not, as text.");
  m.def(
      "load_onnx", [](const std::string& path) { return load_onnx(path); }, "path"_a,
      nb::call_guard<nb::gil_scoped_release>(),
      "Reads an ONNX model. Raises UserError with the operator and the node.");
  m.def(
      "compile_network",
      [](const Network& network, nb::kwargs keywords) -> PythonNetwork {
        const NetworkOptions options = options_of(keywords);
        nb::gil_scoped_release unlocked;
        return {compile(network, options), {options.device, options.device_index}, options};
      },
      "network"_a, "options"_a,
      nb::sig("def compile_network(network: Network, **options: object) -> NetworkExecutable"),
      "Fuses and compiles a network. options: see NetworkOptions: device, device_index, threads, layout, fuse, "
      "cached_plans, precision, tuned, spare_sms, watchdog, strict, attention, weights, short_products. Raises "
      "UserError and Unsupported.");
}

}  // namespace unisono::python
