#pragma once

// The matrix of a convolution's patches, for *_cpu.cc files only: a row for each output pixel, with
// the pixels of its window one after the other. It is never stored as a whole: a product reads the
// channels of each pixel where they are, or copies the rows that it multiplies next.

#include <algorithm>
#include <cstring>

#include "kernels/matmul/product.h"

namespace trireme::TRIREME_ISA {
namespace {

template <typename Unit>
TRIREME_INLINE void copy_unit(const char* from, char* to) {
  Unit unit;
  std::memcpy(&unit, from, sizeof unit);
  std::memcpy(to, &unit, sizeof unit);
}

// Copies runs that are mostly too short for a call of memcpy. The last two units may overlap.
TRIREME_INLINE void copy_bytes(const char* from, int64_t bytes, char* to) {
  const auto copy_by = [&]<typename Unit>(Unit) TRIREME_INLINE_LAMBDA {
    constexpr int64_t kUnit = sizeof(Unit);
    for (int64_t i = 0; i + kUnit <= bytes; i += kUnit) copy_unit<Unit>(from + i, to + i);
    if (bytes % kUnit != 0) copy_unit<Unit>(from + bytes - kUnit, to + bytes - kUnit);
  };
  if (bytes >= 32) return copy_by(__m256i{});
  if (bytes >= 8) return copy_by(uint64_t{});
  if (bytes >= 2) copy_by(uint16_t{});
}

// Copies n elements, and widens them if U is wider than T.
template <typename T, typename U>
TRIREME_INLINE void copy_elements(const T* from, int64_t n, U* to) {
  if constexpr (std::is_same_v<T, U>) {
    copy_bytes(reinterpret_cast<const char*>(from), n * int64_t(sizeof(T)),
               reinterpret_cast<char*>(to));
  } else {
    for_each_vector(n, [&](int64_t i, auto lanes)
                           TRIREME_INLINE_LAMBDA { store(to + i, load(from + i, lanes), lanes); });
  }
}

template <typename U>
TRIREME_INLINE void clear_elements(U* to, int64_t n) {
  if (n > 0) std::memset(static_cast<void*>(to), 0, size_t(n) * sizeof(U));
}

template <typename T>
struct Patches {
  const T* pixels = nullptr;  // the first channel of a group in the first pixel
  int64_t pixel_stride = 0;   // elements from one pixel to the next
  int64_t channels = 0;       // of the group
  int64_t height = 0, width = 0;
  int64_t out_height = 0, out_width = 0;
  int64_t window_height = 0, window_width = 0;
  int64_t stride = 1;
  int64_t top = 0, left = 0;  // where the first window starts; negative: in the padding

  int64_t cols() const { return window_height * window_width * channels; }

  // An output pixel.
  struct Position {
    int64_t image, row, col;
  };
  TRIREME_INLINE Position position(int64_t row) const {
    return {row / out_width / out_height, row / out_width % out_height, row % out_width};
  }
  TRIREME_INLINE void advance(Position& at) const {
    if (++at.col < out_width) return;
    at.col = 0;
    if (++at.row < out_height) return;
    at.row = 0;
    ++at.image;
  }
  // A pixel of the window.
  struct WindowPixel {
    int64_t row, col;
  };
  TRIREME_INLINE WindowPixel window_pixel(int64_t number) const {
    return {number / window_width, number % window_width};
  }
  // Returns the channels of a pixel of the window; null if it lies outside the image.
  TRIREME_INLINE const T* channels_of(const Position& at, const WindowPixel& pixel) const {
    const int64_t row = top + at.row * stride + pixel.row;
    const int64_t col = left + at.col * stride + pixel.col;
    if (uint64_t(row) >= uint64_t(height) || uint64_t(col) >= uint64_t(width)) return nullptr;
    return pixels + ((at.image * height + row) * width + col) * pixel_stride;
  }

  // Returns how many steps of k a product multiplies at a time. If rows are read in place, these
  // are some whole pixels or a part of one; else `usual`, or a whole row if it is short.
  int64_t block_steps(int64_t usual) const;
  // Panels are packed from where the channels are if there are enough of them.
  PanelSource panel_source() const {
    return channels % kRegisterLanes == 0 ? PanelSource::Pixels : PanelSource::CopiedPixels;
  }
  // Prepare a part of the rows of a, and the panels of a block of b.
  RowsOfA rows(const ProductBlock& block, const Workspace& ws) const;
  void pack(const ProductBlock& block, int64_t panel_dwords, const Workspace& ws) const;

  // Copies elements [begin, begin + count) of rows [row, row + num_rows), which stand `stride`
  // apart in `to`.
  template <typename V>
  void copy(int64_t row, int64_t num_rows, int64_t begin, int64_t count, V* to,
            int64_t to_stride) const;

 private:
  using U = ComputeType<T>;
  static constexpr int64_t kElements = kStepElements<U>;
  // Reading shorter segments in place would be slower than reading copies.
  static constexpr int64_t kLeastSegmentSteps = 8;
  bool is_read_in_place() const;
  RowsOfA rows_in_place(const ProductBlock& block, const Workspace& ws) const;
  void pack_in_place(const ProductBlock& block, int64_t panel_dwords, const Workspace& ws) const;
  template <int64_t kRegisters>
  void pack_pixel(const ProductBlock& block, int64_t col, uint32_t* out) const;
  template <typename V>
  void copy_whole_rows(int64_t row, int64_t num_rows, V* to, int64_t to_stride) const;
  template <typename V>
  void copy_line(const T* line, int64_t first_col, int64_t begin, int64_t end, V* to) const;
};

// Copies elements [begin, end) of one row of the window, which starts in column first_col of a line
// of pixels.
template <typename T>
template <typename V>
void Patches<T>::copy_line(const T* line, int64_t first_col, int64_t begin, int64_t end,
                           V* to) const {
  const int64_t low = std::clamp(std::max<int64_t>(0, -first_col) * channels, begin, end);
  const int64_t high = std::clamp(std::min(window_width, width - first_col) * channels, low, end);
  clear_elements(to, low - begin);
  if (pixel_stride == channels) {
    copy_elements(line + first_col * channels + low, high - low, to + (low - begin));
  } else {
    for (int64_t i = low; i < high;) {
      const int64_t col = i / channels, channel = i % channels;
      const int64_t run = std::min(channels - channel, high - i);
      copy_elements(line + (first_col + col) * pixel_stride + channel, run, to + (i - begin));
      i += run;
    }
  }
  clear_elements(to + (high - begin), end - high);
}

// Copies all elements of rows of contiguous pixels: every line of a window is one run.
template <typename T>
template <typename V>
void Patches<T>::copy_whole_rows(int64_t row, int64_t num_rows, V* to, int64_t to_stride) const {
  const int64_t line_elements = window_width * channels;
  Position at = position(row);
  for (int64_t r = 0; r < num_rows; ++r, to += to_stride, advance(at)) {
    const int64_t first_row = top + at.row * stride, first_col = left + at.col * stride;
    const int64_t low = std::clamp<int64_t>(-first_col, 0, window_width) * channels;
    const int64_t high = std::clamp<int64_t>(width - first_col, 0, window_width) * channels;
    const T* from = pixels + ((at.image * height + first_row) * width + first_col) * channels;
    V* out = to;
    for (int64_t line = 0; line < window_height; ++line) {
      if (uint64_t(first_row + line) < uint64_t(height)) {
        clear_elements(out, low);
        copy_elements(from + low, high - low, out + low);
        clear_elements(out + high, line_elements - high);
      } else {
        clear_elements(out, line_elements);
      }
      from += width * channels;
      out += line_elements;
    }
  }
}

template <typename T>
template <typename V>
void Patches<T>::copy(int64_t row, int64_t num_rows, int64_t begin, int64_t count, V* to,
                      int64_t to_stride) const {
  if (count == cols() && pixel_stride == channels) {
    return copy_whole_rows(row, num_rows, to, to_stride);
  }
  const int64_t line_elements = window_width * channels;
  const int64_t first_line = begin / line_elements;
  Position at = position(row);
  for (int64_t r = 0; r < num_rows; ++r, to += to_stride, advance(at)) {
    const int64_t first_col = left + at.col * stride;
    int64_t done = 0;
    for (int64_t line = first_line; done < count; ++line) {
      const int64_t from = begin + done - line * line_elements;
      const int64_t end = std::min(line_elements, from + count - done);
      const int64_t in_row = top + at.row * stride + line;
      if (in_row < 0 || in_row >= height) {
        clear_elements(to + done, end - from);
      } else {
        copy_line(pixels + (at.image * height + in_row) * width * pixel_stride, first_col, from,
                  end, to + done);
      }
      done += end - from;
    }
  }
}

// The zeros of a pixel of the padding, as many as a block of k has of one pixel.
constexpr int64_t kMostSegmentSteps = 256;
alignas(64) constexpr char kPadding[kMostSegmentSteps * sizeof(float)] = {};

template <typename T>
bool Patches<T>::is_read_in_place() const {
  const int64_t steps = channels / kElements;
  const int64_t parts = num_steps_of(steps, kMostSegmentSteps);
  return std::is_same_v<T, U> && channels % kElements == 0 && steps >= kLeastSegmentSteps &&
         steps % parts == 0;
}

template <typename T>
int64_t Patches<T>::block_steps(int64_t usual) const {
  if (!is_read_in_place()) {  // rows that fit are copied as a whole
    const int64_t steps = num_steps_of(cols(), kElements);
    return steps <= 2 * kMostSegmentSteps ? steps : usual;
  }
  const int64_t steps = channels / kElements;
  const int64_t parts = num_steps_of(steps, kMostSegmentSteps);
  return parts > 1 ? steps / parts : kMostSegmentSteps / steps * steps;
}

template <typename T>
RowsOfA Patches<T>::rows_in_place(const ProductBlock& block, const Workspace& ws) const {
  const int64_t segments = std::max<int64_t>(1, block.k_count / channels);
  const int64_t first_pixel = block.k_begin / channels, channel = block.k_begin % channels;
  const auto** table = reinterpret_cast<const char**>(ws.a_rows);
  const RowGroups groups{block.rows};
  const Position first = position(block.row);
  for (int64_t s = 0; s < segments; ++s) {
    const WindowPixel pixel = window_pixel(first_pixel + s);
    Position at = first;
    for (int64_t g = 0; g < groups.count(); ++g) {
      const int64_t rows = groups.begin(g + 1) - groups.begin(g);
      for (int64_t r = 0; r < rows; ++r, advance(at)) {
        const T* found = channels_of(at, pixel);
        table[(g * segments + s) * kGroupRows + r] =
            found != nullptr ? reinterpret_cast<const char*>(found + channel) : kPadding;
      }
    }
  }
  return {.num_steps = block.k_count / kElements,
          .segments = reinterpret_cast<const char* const*>(ws.a_rows),
          .num_segments = segments};
}

template <typename T>
RowsOfA Patches<T>::rows(const ProductBlock& block, const Workspace& ws) const {
  if (is_read_in_place()) return rows_in_place(block, ws);
  // Rows at distances of a power of two would compete for few lines of a cache, so one step is
  // added.
  const int64_t num_steps = num_steps_of(block.k_count, kElements);
  const int64_t row_steps = (num_steps_of(num_steps, kLanes) + 1) * kLanes;
  U* copies = reinterpret_cast<U*>(ws.a_rows);
  copy(block.row, block.rows, block.k_begin, block.k_count, copies, row_steps * kElements);
  if (block.k_count % kElements != 0) {  // an incomplete pair
    for (int64_t r = 0; r < block.rows; ++r) {
      copies[r * row_steps * kElements + block.k_count] = U{};
    }
  }
  return {.data = reinterpret_cast<const char*>(copies),
          .row_bytes = row_steps * int64_t(sizeof(float)),
          .step_bytes = sizeof(float),
          .num_steps = num_steps};
}

// Packs some registers of a panel, all from channels of one pixel of the window: columns from `col`
// on of the block.
template <typename T>
template <int64_t kRegisters>
void Patches<T>::pack_pixel(const ProductBlock& block, int64_t col, uint32_t* out) const {
  const auto* padding = reinterpret_cast<const T*>(kPadding);
  const WindowPixel pixel = window_pixel((block.col + col) / channels);
  const int64_t channel = (block.col + col) % channels;
  Position at = position(block.k_begin);
  const auto next = [&]() TRIREME_INLINE_LAMBDA {
    const T* found = channels_of(at, pixel);
    advance(at);
    return found != nullptr ? found + channel : padding;
  };
  for (int64_t row = 0; row < block.k_count; row += kElements, out += kPanelCols) {
    const T* here = next();
    const T* second = kElements == 2 && row + 1 < block.k_count ? next() : nullptr;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRegisters * kRegisterLanes; i += kRegisterLanes) {
      store_dwords(out + i, interleaved(here + i, second ? second + i : nullptr, kRegisterLanes));
    }
  }
}

template <typename T>
void Patches<T>::pack_in_place(const ProductBlock& block, int64_t panel_dwords,
                               const Workspace& ws) const {
  uint32_t* panel = ws.b_panels;
  if (channels % kPanelCols == 0) {  // where a pixel is, is found once for a whole row of a panel
    for (int64_t col = 0; col < block.cols; col += kPanelCols, panel += panel_dwords) {
      pack_pixel<kPanelRegisters>(block, col, panel);
    }
    return;
  }
  for (int64_t col = 0; col < block.cols; col += kRegisterLanes) {
    pack_pixel<1>(block, col, panel + col / kPanelCols * panel_dwords + col % kPanelCols);
  }
}

template <typename T>
void Patches<T>::pack(const ProductBlock& block, int64_t panel_dwords, const Workspace& ws) const {
  if (panel_source() == PanelSource::Pixels) return pack_in_place(block, panel_dwords, ws);
  constexpr int64_t kCopiedRows = 8;  // so few that the copies stay in the L1 cache
  alignas(64) T copies[kCopiedRows * kMostPackedCols];
  for (int64_t row = 0; row < block.k_count; row += kCopiedRows) {
    const int64_t rows = std::min(kCopiedRows, block.k_count - row);
    copy(block.k_begin + row, rows, block.col, block.cols, copies, block.cols);
    uint32_t* out = ws.b_panels + row / kElements * kPanelCols;
    for (int64_t col = 0; col < block.cols; col += kPanelCols, out += panel_dwords) {
      pack_interleaved(copies + col, block.cols, rows, std::min(kPanelCols, block.cols - col),
                       kPanelCols, out);
    }
  }
}

}  // namespace
}  // namespace trireme::TRIREME_ISA
