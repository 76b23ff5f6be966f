#include "runtime/cuda/capture.hpp"

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "unisono/error.hpp"

namespace unisono::cuda {

bool is_capturing(CUstream stream) {
  CUstreamCaptureStatus status{};
  const CUresult result = driver().cuStreamIsCapturing(stream, &status);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    throw UserError(
        "the legacy default stream was given while another stream of the GPU's context is being captured, and CUDA "
        "allows nothing on it until that capture has ended; expected the captured stream, or one that was made with "
        "cudaStreamNonBlocking");
  check(result, "asking whether the stream is being captured");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

struct CapturedWorkspaces::Free {
  std::mutex mutex;
  std::vector<CUdeviceptr> addresses;  // has room for all that there are, so that giving one back cannot fail
};

namespace {

CUgraph captured_graph_of(CUstream stream) {
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  check(driver().cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, nullptr, nullptr),
        "asking for the graph that a stream is captured into");
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || graph == nullptr)
    check(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "adding a launch to a captured graph");
  return graph;
}

// What a user object's destructor calls; the driver calls it with its own locks held
struct Ticket {
  std::function<void()> gone;
  static void redeem(void* ticket) {
    const std::unique_ptr<Ticket> mine(static_cast<Ticket*>(ticket));
    mine->gone();
  }
};

}  // namespace

void tie_to_graph(CUstream stream, std::function<void()> gone) {
  auto ticket = std::make_unique<Ticket>(Ticket{std::move(gone)});
  CUgraph graph = nullptr;
  CUuserObject object = nullptr;
  try {
    graph = captured_graph_of(stream);
    check(driver().cuUserObjectCreate(&object, ticket.get(), &Ticket::redeem, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
          "tying a workspace to a captured graph");
  } catch (...) {
    Ticket::redeem(ticket.release());
    throw;
  }
  (void)ticket.release();  // the user object's
  if (const CUresult result = driver().cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
      result != CUDA_SUCCESS) {
    driver().cuUserObjectRelease(object, 1);  // redeems the ticket
    check(result, "tying a workspace to a captured graph");
  }
}

CapturedWorkspaces::CapturedWorkspaces() : free_(std::make_shared<Free>()) {}
CapturedWorkspaces::~CapturedWorkspaces() = default;

CUdeviceptr CapturedWorkspaces::take(CUstream stream, const std::function<Memory()>& make) {
  captured_graph_of(stream);  // throws before anything is made
  std::optional<CUdeviceptr> address;
  {
    const std::lock_guard lock(free_->mutex);
    if (!free_->addresses.empty()) address = free_->addresses.back(), free_->addresses.pop_back();
  }
  if (!address) {
    Memory made = make();  // outside the lock: no driver call is made while it is held
    address = made.address();
    const std::lock_guard lock(free_->mutex);
    free_->addresses.reserve(all_.size() + 1);
    all_.push_back(std::move(made));
  }
  tie_to_graph(stream, [free = free_, address = *address] {
    const std::lock_guard lock(free->mutex);
    free->addresses.push_back(address);
  });
  return *address;
}

}  // namespace unisono::cuda
