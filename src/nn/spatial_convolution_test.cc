// Convolutions and pools over images whose rows several ranks share out: every window, stride and
// padding on 2 to 4 ranks against one rank.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "comm/world.h"
#include "kernels/convolution/convolution.h"
#include "kernels/kernel_table.h"
#include "kernels/own_stream.h"
#include "kernels/pool/pool.h"
#include "schema/image_band.h"
#include "sharding/redistribute.h"

namespace trireme {
namespace {

constexpr int64_t kImages = 2, kWidth = 6, kChannels = 3, kFilters = 5;

// A matrix with a row for every pixel.
struct Pixels {
  Pixels(int64_t pixels, int64_t cols, unsigned seed = 0) : cols(cols), x(size_t(pixels * cols)) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(std::sin(double(i * 7 + seed) * 0.37));
  }
  operator MatrixRef() {  // NOLINT: a borrowed view of itself
    return {x.data(), DType::F32, int64_t(x.size()) / cols, cols, cols};
  }
  TensorRef images(int64_t rows) {
    const int64_t numbers = rows == 0 ? 0 : int64_t(x.size()) / (kImages * rows);
    return {x.data(), DType::F32, Shape{kImages, rows, numbers}};
  }
  int64_t cols;
  std::vector<float> x;
};

// Copies some rows of all images.
Pixels some_rows_of(const Pixels& whole, int64_t width, int64_t extent, const IndexRange& rows) {
  Pixels part(kImages * rows.count() * width, whole.cols);
  const int64_t row = width * whole.cols;
  for (int64_t image = 0; image < kImages; ++image) {
    std::copy_n(whole.x.begin() + (image * extent + rows.begin) * row, rows.count() * row,
                part.x.begin() + image * rows.count() * row);
  }
  return part;
}

void expect_near_pixels(const Pixels& got, const Pixels& want, const char* what) {
  ASSERT_EQ(got.x.size(), want.x.size());
  for (size_t i = 0; i < got.x.size(); ++i) ASSERT_NEAR(got.x[i], want.x[i], 2e-5) << what << i;
}

// The windows of nets, and others: larger than the part of a rank, with strides that leave pixels
// out, and without a multiple of anything.
void for_each_window(const std::function<void(int, const ImageWindow&)>& visit) {
  for (const int ranks : {2, 3, 4}) {
    for (const int64_t rows : {7, 12}) {
      for (const int64_t size : {1, 2, 3, 5}) {
        for (const int64_t stride : {1, 2, 3}) {
          for (int64_t padding = 0; padding < size; ++padding) {
            const ImageWindow window{kImages, rows, kWidth, size, stride, padding};
            if (window.out_height() < ranks) continue;
            SCOPED_TRACE(fmt::format("{} ranks, {} rows, {}", ranks, rows,
                                     to_string(Placement::halo(window.rows()))));
            visit(ranks, window);
          }
        }
      }
    }
  }
}

// One rank of several. The halo of its rows, and the mirror.
struct SpatialRank {
  SpatialRank(Group& group, const ImageWindow& whole, int64_t channels)
      : group(group),
        whole(whole),
        band(band_of_rank(whole, group.size(), group.rank())),
        own(local_range(whole.height, Placement::shard(1), group.size(), group.rank())),
        made(local_range(whole.out_height(), Placement::shard(1), group.size(), group.rank())),
        fetch{Placement::shard(1), Placement::halo(whole.rows())},
        global{kImages, whole.height, kWidth * channels},
        scratch(size_t(redistribute_scratch_bytes(fetch, global, DType::F32, group.size()))) {}

  Pixels halo_of(const Pixels& x) {
    Pixels part = some_rows_of(x, kWidth, whole.height, own);
    Pixels halo(band.in_pixels(), x.cols);
    redistribute(group, fetch, global, part.images(own.count()), halo.images(band.height), scratch);
    return halo;
  }
  Pixels returned(Pixels halo) {
    Pixels part(kImages * own.count() * kWidth, halo.cols);
    redistribute(group, backward_of(fetch), global, halo.images(band.height),
                 part.images(own.count()), scratch);
    return part;
  }

  Group& group;
  ImageWindow whole, band;
  IndexRange own, made;
  Redistribution fetch;
  Shape global;
  std::vector<std::byte> scratch;
};

const KernelTable& spatial_kernels() { return cpu_kernels(supported_isas().back()); }

Tensor convolution_scratch_of(const ImageWindow& window) {
  const int64_t bytes = convolution_scratch(window, 1, kChannels, kFilters, DType::F32).bytes();
  return Tensor(DType::U8, Shape{bytes});
}

TEST(SpatialConvolution, ForwardHasTheBitsOfOneRankAndGradientsAreItsOwn) {
  OwnStream stream(1);
  for_each_window([&](int ranks, const ImageWindow& window) {
    const int64_t elements = window.size * window.size * kChannels;
    const int64_t width = window.out_width(), height = window.out_height();
    Pixels x(window.in_pixels(), kChannels, 1), w(kFilters, elements, 2), bias(1, kFilters, 3);
    Pixels y(window.out_pixels(), kFilters), dy(window.out_pixels(), kFilters, 4);
    Pixels dx(window.in_pixels(), kChannels), dw(kFilters, elements);
    const TensorRef bias_F{bias.x.data(), DType::F32, Shape{kFilters}};
    const Tensor scratch = convolution_scratch_of(window);
    spatial_kernels().convolution_forward(stream, {window, 1, x, w, bias_F, y});
    spatial_kernels().convolution_backward_input(stream, {window, 1, dy, w, dx, scratch});
    spatial_kernels().convolution_backward_weight(stream, {window, 1, dy, x, dw});

    std::vector<Pixels> dw_of_rank(size_t(ranks), Pixels(kFilters, elements));
    run_ranks(ranks, [&](World& world) {
      OwnStream own_stream(1);
      SpatialRank rank(world.group(), window, kChannels);
      Pixels halo = rank.halo_of(x);
      Pixels made(rank.band.out_pixels(), kFilters);
      spatial_kernels().convolution_forward(own_stream, {rank.band, 1, halo, w, bias_F, made});
      ASSERT_EQ(made.x, some_rows_of(y, width, height, rank.made).x);

      Pixels dmade = some_rows_of(dy, width, height, rank.made);
      Pixels dhalo(rank.band.in_pixels(), kChannels);
      const Tensor own_scratch = convolution_scratch_of(rank.band);
      spatial_kernels().convolution_backward_input(own_stream,
                                                   {rank.band, 1, dmade, w, dhalo, own_scratch});
      expect_near_pixels(rank.returned(dhalo), some_rows_of(dx, kWidth, window.height, rank.own),
                         "dx");
      spatial_kernels().convolution_backward_weight(
          own_stream, {rank.band, 1, dmade, halo, dw_of_rank[size_t(world.rank())]});
    });
    Pixels sum(kFilters, elements);
    for (size_t i = 0; i < sum.x.size(); ++i) {
      sum.x[i] = 0.0f;
      for (const Pixels& part : dw_of_rank) sum.x[i] += part.x[i];
    }
    expect_near_pixels(sum, dw, "dw");
  });
}

TEST(SpatialPool, ForwardHasTheBitsOfOneRankAndGradientsAreItsOwn) {
  OwnStream stream(1);
  for_each_window([&](int ranks, const ImageWindow& window) {
    if (2 * window.padding > window.size) return;  // a pool has no such window
    for (const PoolKind kind : {PoolKind::Max, PoolKind::Average}) {
      Pixels x(window.in_pixels(), kChannels, 1), dx(window.in_pixels(), kChannels);
      Pixels y(window.out_pixels(), kChannels), dy(window.out_pixels(), kChannels, 4);
      spatial_kernels().pool_forward(stream, {kind, window, x, y});
      spatial_kernels().pool_backward(stream, {kind, window, dy, x, dx});
      run_ranks(ranks, [&](World& world) {
        OwnStream own_stream(1);
        SpatialRank rank(world.group(), window, kChannels);
        const auto rows_made = [&](const Pixels& whole) {
          return some_rows_of(whole, window.out_width(), window.out_height(), rank.made);
        };
        Pixels halo = rank.halo_of(x), made(rank.band.out_pixels(), kChannels);
        spatial_kernels().pool_forward(own_stream, {kind, rank.band, halo, made});
        ASSERT_EQ(made.x, rows_made(y).x);
        Pixels dmade = rows_made(dy), dhalo(rank.band.in_pixels(), kChannels);
        spatial_kernels().pool_backward(own_stream, {kind, rank.band, dmade, halo, dhalo});
        expect_near_pixels(rank.returned(dhalo), some_rows_of(dx, kWidth, window.height, rank.own),
                           "dx");
      });
    }
  });
}

}  // namespace
}  // namespace trireme
