#pragma once
/// Memory for intermediate results, reused from run to run.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace unisono::cpu {

/// 64-byte aligned bytes. Throws UserError for more than this process may use.
class AlignedBuffer {
 public:
  static constexpr std::size_t alignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes);
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

/// Bytes rounded up so that what follows is aligned.
constexpr std::size_t aligned_size(std::size_t bytes) {
  return (bytes + AlignedBuffer::alignment - 1) / AlignedBuffer::alignment * AlignedBuffer::alignment;
}

/// What a run has for the operator that is at work: memory, and the threads that may work at it at a time.
struct OperatorScratch {
  std::byte* data = nullptr;
  int threads = 1;
};

/// Pieces of one size in the memory of a run: each thread that works at an operator has one. Takes no lock and no
/// memory.
class ScratchPieces {
 public:
  /// `bytes`: of a piece; the memory has aligned_size(bytes) for each thread.
  ScratchPieces(const OperatorScratch& scratch, std::size_t bytes);

  /// Has a piece that no other thread has until it is destroyed.
  class Lease {
   public:
    ~Lease() { pieces_.give_back(number_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    std::byte* data() const { return pieces_.memory_ + static_cast<std::size_t>(number_) * pieces_.bytes_; }

   private:
    friend class ScratchPieces;
    Lease(ScratchPieces& pieces, int number) : pieces_(pieces), number_(number) {}
    ScratchPieces& pieces_;
    int number_;
  };

  /// Throws InternalError if more threads than were said are at work.
  Lease take();

 private:
  void give_back(int number);

  static constexpr int per_word = 64;
  std::byte* memory_;
  std::size_t bytes_;
  int count_;
  std::array<std::atomic<std::uint64_t>, 4> taken_{};  // a bit a piece
};

/// Buffers of the process that no run uses at the moment. The buffer used last is handed out first, because it is the
/// one that is still in the caches; it grows if it is too small. So a program that runs the same executables again and
/// again soon allocates nothing.
class ScratchPool {
 public:
  static ScratchPool& shared();

  /// Borrows a buffer, and gives it back when destroyed.
  class Lease {
   public:
    Lease(ScratchPool& pool, AlignedBuffer buffer) : pool_(&pool), buffer_(std::move(buffer)) {}
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    std::byte* data() const { return buffer_.data(); }

   private:
    ScratchPool* pool_;
    AlignedBuffer buffer_;
  };

  Lease borrow(std::size_t bytes);

 private:
  static constexpr std::size_t most_idle = 8;

  std::mutex mutex_;
  std::vector<AlignedBuffer> idle_;
};

}  // namespace unisono::cpu
