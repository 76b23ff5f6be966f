// write_cases OUTPUT: the generated sources of all cases as one C++ file against host/machine.hpp, and a table of their
// entries.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "host/cases.hpp"

namespace {

// Namespace and kernel get a name of their own; the device headers give way to the stand-ins
std::string on_host(const std::string& source, std::size_t number) {
  std::istringstream lines(source);
  std::string text = fmt::format(
                  "#define unisono case_{0}\n#define unisono_kernel kernel_{0}\nnamespace unisono {{\nusing namespace "
                  "host;\n}}\n",
                  number),
              line;
  while (std::getline(lines, line))
    if (!line.starts_with("#include")) text += line + "\n";
  return text + "#undef unisono\n#undef unisono_kernel\n\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_cases OUTPUT\n";
    return 2;
  }
  std::ofstream out(argv[1]);
  out << "#include \"host/machine.hpp\"\n\n";
  const auto cases = unisono::codegen::host_cases();
  std::string table;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    out << on_host(cases[i].kernel.source, i);
    table +=
        fmt::format("    [](const void* p) {{ kernel_{0}(*static_cast<const case_{0}::Conv::Params*>(p)); }},\n", i);
  }
  out << "const std::vector<host::Entry> host::entries{\n" << table << "};\n";
  return out.good() ? 0 : 1;
}
