#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/save.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// T, H, D below are whatever the shapes drawn say.
struct WholeTensor {
  std::string name;
  Shape shape;
  DType dtype = DType::F32;
  std::vector<std::byte> data;
};

using Random = std::mt19937_64;

int64_t draw(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Random bits, but no NaN or Inf in any floating-point dtype: the exponent's lowest bit is cleared.
std::vector<std::byte> draw_data(Random& random, int64_t num_elements, DType dtype) {
  std::vector<std::byte> data(static_cast<size_t>(num_elements * size_of(dtype)));
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  const size_t width = static_cast<size_t>(size_of(dtype));
  for (size_t i = 0; i + width <= data.size(); i += width) {
    data[i + width - 1] &= std::byte{0xbf};
  }
  return data;
}

WholeTensor draw_tensor(Random& random, const std::string& name) {
  constexpr DType kDTypes[] = {DType::F32, DType::BF16, DType::F16, DType::F64, DType::I64,
                               DType::I32, DType::U32,  DType::U16, DType::U8};
  WholeTensor tensor{.name = name};
  std::vector<int64_t> extents(static_cast<size_t>(draw(random, 0, 4)));
  for (int64_t& extent : extents) extent = draw(random, draw(random, 0, 9) == 0 ? 0 : 1, 7);
  tensor.shape = Shape(extents);
  tensor.dtype = kDTypes[draw(random, 0, 8)];
  tensor.data = draw_data(random, tensor.shape.num_elements(), tensor.dtype);
  return tensor;
}

// A slice's elements, dense, straight from its definition.
std::vector<std::byte> cut(const WholeTensor& tensor, const Slice& slice) {
  std::vector<std::byte> out;
  const auto width = static_cast<size_t>(size_of(tensor.dtype));
  for (int64_t flat = 0; flat < tensor.shape.num_elements(); ++flat) {
    bool inside = true;
    if (slice.is_box()) {
      int64_t rest = flat;
      for (int dim = tensor.shape.rank() - 1; dim >= 0; --dim) {
        const int64_t at = rest % tensor.shape[dim] - slice.begin()[dim];
        rest /= tensor.shape[dim];
        inside = inside && at >= 0 && at < slice.extent()[dim];
      }
    } else {
      inside = flat >= slice.first() && flat < slice.first() + slice.count();
    }
    const auto begin = tensor.data.begin() + flat * static_cast<int64_t>(width);
    if (inside) out.insert(out.end(), begin, begin + static_cast<int64_t>(width));
  }
  return out;
}

// Cuts a box into boxes at random places: disjoint, together the whole.
void split_box(Random& random, const Shape& begin, const Shape& extent, int depth,
               std::vector<Slice>& out) {
  if (depth == 0 || extent.rank() == 0) {
    out.push_back(Slice::box(begin, extent));
    return;
  }
  const int dim = static_cast<int>(draw(random, 0, extent.rank() - 1));
  const int64_t left = draw(random, 0, extent[dim]);
  std::vector<int64_t> lower(extent.extents().begin(), extent.extents().end());
  std::vector<int64_t> upper = lower;
  std::vector<int64_t> middle(begin.extents().begin(), begin.extents().end());
  lower[dim] = left;
  upper[dim] -= left;
  middle[dim] += left;
  split_box(random, begin, Shape(lower), depth - 1, out);
  split_box(random, Shape(middle), Shape(upper), depth - 1, out);
}

std::vector<Slice> draw_partition(Random& random, const Shape& shape) {
  std::vector<Slice> slices;
  if (draw(random, 0, 1) == 0) {
    split_box(random, Slice::whole(shape).begin(), shape, static_cast<int>(draw(random, 0, 3)),
              slices);
    return slices;
  }
  int64_t first = 0;
  while (first < shape.num_elements()) {
    const int64_t count = draw(random, 1, shape.num_elements() - first);
    slices.push_back(Slice::range(first, count));
    first += count;
  }
  return slices;
}

// In memory where there is such a folder: the many small files of these tests are all synced.
fs::path memory_folder() {
  return fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    root_ = memory_folder() / ("trireme_checkpoint_test." + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~CheckpointTest() override { fs::remove_all(root_); }

  std::string root() const { return root_.string(); }

  // Every tensor cut into random slices, each written by a random one of the writers.
  std::string save(const std::vector<WholeTensor>& tensors, int num_writers, Random& random,
                   const CheckpointInfo& info, const SaveOptions& options = {}) {
    auto folder = begin_checkpoint(root(), info.step);
    EXPECT_TRUE(folder.ok());
    std::vector<std::vector<TensorPiece>> pieces(static_cast<size_t>(num_writers));
    std::vector<std::vector<std::byte>> memory;
    for (const WholeTensor& tensor : tensors) {
      const auto slices = draw_partition(random, tensor.shape);
      for (const Slice& slice : slices) {
        memory.push_back(cut(tensor, slice));
        pieces[draw(random, 0, num_writers - 1)].push_back(
            {tensor.name, tensor.shape, tensor.dtype, slice, memory.back().data()});
      }
      if (slices.empty()) {
        pieces[0].push_back({tensor.name, tensor.shape, tensor.dtype, Slice::range(0, 0), nullptr});
      }
    }
    std::vector<IndexPart> parts;
    for (int rank = 0; rank < num_writers; ++rank) {
      auto part = write_shards(*folder, rank, pieces[rank], options);
      EXPECT_TRUE(part.ok());
      auto sent = parse_index_part(print_index_part(*part));
      EXPECT_TRUE(sent.ok()) << sent.error().message;
      parts.push_back(*sent);
    }
    auto path = commit_checkpoint(*folder, info, {}, parts, options);
    EXPECT_TRUE(path.ok()) << (path.ok() ? "" : path.error().message);
    return path.ok() ? *path : "";
  }

  fs::path root_;
};

TEST_F(CheckpointTest, AnySlicingThatIsWrittenReadsBackBitwiseInAnyOther) {
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<WholeTensor> tensors;
    for (int index = 0; index < 8; ++index) {
      tensors.push_back(draw_tensor(random, "layers." + std::to_string(index) + ".w"));
    }
    const auto path = save(tensors, static_cast<int>(draw(random, 1, 4)), random, {.step = seed},
                           {.keep = 2, .max_shard_bytes = draw(random, 1, 3000)});
    auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;

    std::vector<TensorRequest> requests;
    std::vector<std::vector<std::byte>> expected, memory;
    for (const WholeTensor& tensor : tensors) {
      for (const Slice& slice : draw_partition(random, tensor.shape)) {
        expected.push_back(cut(tensor, slice));
        memory.emplace_back(expected.back().size());
        requests.push_back({tensor.name, tensor.shape, tensor.dtype, slice, memory.back().data()});
      }
    }
    const Status status = checkpoint->read(requests, {.num_threads = 2});
    ASSERT_TRUE(status.ok()) << status.error().message;
    for (size_t index = 0; index < requests.size(); ++index) {
      EXPECT_EQ(memory[index], expected[index])
          << requests[index].name << requests[index].slice.to_string();
    }
    EXPECT_TRUE(checkpoint->verify(2).empty());
  }
}

}  // namespace
}  // namespace trireme
