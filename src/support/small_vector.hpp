#pragma once
/// A list of a few elements that takes no memory of its own.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <vector>

#include "unisono/error.hpp"

namespace unisono::support {

/// At most N elements; more are an InternalError. Otherwise a std::vector.
template <class T, std::size_t N>
requires std::is_trivially_copyable_v<T>
class SmallVector {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  explicit SmallVector(std::size_t n, T value = T{}) { insert(end(), n, value); }
  SmallVector(std::initializer_list<T> list) { insert(end(), list.begin(), list.end()); }
  template <std::forward_iterator I>
  SmallVector(I first, I last) {
    insert(end(), first, last);
  }
  SmallVector(const std::vector<T>& list) { insert(end(), list.begin(), list.end()); }
  operator std::vector<T>() const { return {begin(), end()}; }

  T* begin() { return elements_.data(); }
  T* end() { return elements_.data() + size_; }
  const T* begin() const { return elements_.data(); }
  const T* end() const { return elements_.data() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return elements_[i]; }
  const T& operator[](std::size_t i) const { return elements_[i]; }
  T& front() { return elements_[0]; }
  const T& front() const { return elements_[0]; }
  T& back() { return elements_[size_ - 1]; }
  const T& back() const { return elements_[size_ - 1]; }

  void clear() { size_ = 0; }
  void push_back(const T& x) { *open(end(), 1) = x; }
  void pop_back() { --size_; }
  void assign(std::size_t n, const T& value) {
    clear();
    insert(end(), n, value);
  }
  T* erase(const T* at) { return erase(at, at + 1); }
  T* erase(const T* first, const T* last) {
    T* const to = begin() + (first - begin());
    std::copy(last, static_cast<const T*>(end()), to);
    size_ -= static_cast<std::size_t>(last - first);
    return to;
  }
  T* insert(const T* at, const T& x) { return insert(at, 1, x); }
  T* insert(const T* at, std::size_t n, T x) {
    T* const to = open(at, n);
    std::fill_n(to, n, x);
    return to;
  }
  T* insert(const T* at, std::initializer_list<T> list) { return insert(at, list.begin(), list.end()); }
  template <std::forward_iterator I>
  T* insert(const T* at, I first, I last) {
    T* const to = open(at, static_cast<std::size_t>(std::distance(first, last)));
    std::copy(first, last, to);
    return to;
  }

  bool operator==(const SmallVector& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  // Room for n elements ahead of `at`
  T* open(const T* at, std::size_t n) {
    if (n > N - size_) throw InternalError("a list of a few elements has too many");
    T* const to = begin() + (at - begin());
    std::copy_backward(to, end(), end() + n);
    size_ += n;
    return to;
  }

  std::array<T, N> elements_{};
  std::size_t size_ = 0;
};

}  // namespace unisono::support
