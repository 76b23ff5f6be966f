#pragma once
#include <string>
#include <vector>

struct Outcome {
  std::string kernel;
  int status = 0;
  std::string text;
};

/// Every kernel, without tensors: an error each, of the CUDA runtime where there is no GPU.
std::vector<Outcome> launch_all();
