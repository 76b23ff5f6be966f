# cmake -D INPUT=… -D FUNCTION=… -D OUTPUT=… -P embed_schemas.cmake: a C++ file with a function that returns a table of
# ONNX's operators as text.
cmake_policy(VERSION 3.22)
set(text "// Written by src/network/onnx/embed_schemas.cmake from a table of text.\n#include \"network/onnx/schema_text.hpp\"\n\nnamespace unisono::network::onnx_import {\n\n")
string(APPEND text "std::string_view ${FUNCTION}() {\n  return\n")
file(READ ${INPUT} content)
string(LENGTH "${content}" length)
set(at 0)
while(at LESS length)  # compilers need not take literals of more than 64 KiB
  string(SUBSTRING "${content}" ${at} 16000 piece)
  string(APPEND text "R\"~~~(${piece})~~~\"\n")
  math(EXPR at "${at} + 16000")
endwhile()
string(APPEND text "\"\";\n}\n\n}  // namespace unisono::network::onnx_import\n")
file(WRITE ${OUTPUT} "${text}")
