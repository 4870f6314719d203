#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "base/dtype.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

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

// Draws random bits without NaN or Inf in any floating-point dtype: the lowest bit of the exponent
// is cleared.
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

// Returns the elements of a slice, dense, by its definition.
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

// Splits a box at random places into boxes that are disjoint and cover it.
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

class CheckpointTest : public FolderTest {
 protected:
  // Cuts every tensor into random slices; a random writer writes each.
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

// An index of which only the checksums are new is that which would be printed as a whole.
TEST(IndexTemplate, PrintsTheIndexThatHasTheseChecksums) {
  CheckpointIndex index{.info = {.step = 7, .optimizer_scalars = {{"num_updates", 7.0}}},
                        .contents = {},
                        .attached = {{"config.toml", {.bytes = 5, .checksum = 17}}}};
  index.contents.shards = {{"shard-0", {.bytes = 400, .checksum = 1}},
                           {"shard-1", {.bytes = 400, .checksum = 2}}};
  const auto slice = [](int64_t first, const char* file) {
    return StoredSlice{.slice = Slice::range(first, 10), .file = file, .offset = first};
  };
  const StoredTensor tensor{.shape = Shape{20},
                            .slices = {slice(0, "shard-0"), slice(10, "shard-1")}};
  index.contents.tensors = {{"a\"checksum\":\"", tensor}, {"b", tensor}, {"checksum", tensor}};
  IndexPart numbered = index.contents;
  std::vector<uint64_t> checksums(6);
  size_t number = 0;
  for (auto& [name, stored] : index.contents.tensors) {
    for (size_t i = 0; i < stored.slices.size(); ++i, ++number) {
      const size_t place = 5 - number;  // in any order
      checksums[place] = stored.slices[i].checksum = 1000003 * (number + 1);
      numbered.tensors.at(name).slices[i].checksum = place;
    }
  }
  EXPECT_EQ(IndexTemplate(numbered).print(index.info, index.attached, checksums),
            print_index(index));
}

TEST_F(CheckpointTest, PositionAndAttachedFilesComeBackExactly) {
  const SmallState state(123456789);
  const auto path = state.save(root());
  ASSERT_TRUE(path.ok()) << message_of(path);
  const auto checkpoint = Checkpoint::open(*path);
  ASSERT_TRUE(checkpoint.ok()) << message_of(checkpoint);
  const CheckpointInfo& info = checkpoint->info();
  EXPECT_EQ(info.step, state.info.step);
  EXPECT_EQ(info.next_sample, state.info.next_sample);
  EXPECT_EQ(info.tokens_seen, state.info.tokens_seen);
  EXPECT_EQ(info.seed, state.info.seed);
  EXPECT_EQ(info.data_identity, state.info.data_identity);
  EXPECT_EQ(info.optimizer, state.info.optimizer);
  EXPECT_EQ(info.optimizer_scalars, state.info.optimizer_scalars);
  for (const AttachedFile& file : state.attached()) {
    EXPECT_EQ(*checkpoint->read_attached(file.name), file.content);
  }
  EXPECT_FALSE(checkpoint->read_attached("absent").ok());
  EXPECT_EQ(checkpoint->find("layers.0.attn.wq")->shape, (Shape{3, 4}));
  EXPECT_EQ(checkpoint->find("layers.0.attn.wk"), nullptr);
}

TEST_F(CheckpointTest, ARequestThatDoesNotFitIsRefusedWithWhatTheCheckpointHolds) {
  const auto checkpoint = Checkpoint::open(*SmallState(1).save(root()));
  ASSERT_TRUE(checkpoint.ok());
  std::vector<std::byte> out(1000);
  const auto refused = [&](const std::string& name, const Shape& shape, DType dtype) {
    const TensorRequest request{name, shape, dtype, Slice::whole(shape), out.data()};
    const Status status = checkpoint->read({&request, 1});
    EXPECT_TRUE(!status.ok() && status.error().kind == ErrorKind::Usage) << message_of(status);
    return message_of(status);
  };
  EXPECT_NE(refused("layers.0.attn.wk", {3, 4}, DType::F32).find("did you mean layers.0.attn.wq"),
            std::string::npos);
  EXPECT_NE(refused("layers.0.attn.wq", {4, 3}, DType::F32).find("shape [3, 4], the model needs"),
            std::string::npos);
  EXPECT_NE(refused("layers.0.attn.wq", {3, 4}, DType::I32).find("does not convert to int32"),
            std::string::npos);
}

TEST_F(CheckpointTest, ANumberThatIsNotFiniteIsRefusedWithItsTensorAndIndexUnlessAllowed) {
  SmallState state(1);
  // Element of the second box (columns 2 and 3) at row 1, column 3.
  state.weight[6 + 3] = std::nanf("");
  const auto checkpoint = Checkpoint::open(*state.save(root()));
  ASSERT_TRUE(checkpoint.ok());
  for (DType dtype : {DType::F32, DType::BF16}) {
    std::vector<float> out(12);
    const TensorRequest request{"layers.0.attn.wq", {3, 4}, dtype, Slice::range(3, 9), out.data()};
    const Status status = checkpoint->read({&request, 1});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::Damaged);
    EXPECT_NE(message_of(status).find("layers.0.attn.wq holds a NaN or Inf"), std::string::npos);
    EXPECT_NE(message_of(status).find("at [1, 3]"), std::string::npos) << message_of(status);
    EXPECT_TRUE(checkpoint->read({&request, 1}, {.allow_nonfinite = true}).ok());
  }
}

TEST_F(CheckpointTest, ReadingInAnotherPrecisionIsRoundingWhatWasWritten) {
  const SmallState state(1);
  const auto checkpoint = Checkpoint::open(*state.save(root()));
  ASSERT_TRUE(checkpoint.ok());
  std::vector<bf16> out(5);
  const TensorRequest request{
      "exp_avg/layers.0.attn.bq", {5}, DType::BF16, Slice::whole({5}), out.data()};
  ASSERT_TRUE(checkpoint->read({&request, 1}).ok());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(out[i], bf16(state.bias[i]));
}

TEST_F(CheckpointTest, AnIncompleteOrDoubledTensorIsNotCommittedAndLeavesNothing) {
  const float data[12] = {};
  const auto box = [&](int64_t row, int64_t rows) {
    return TensorPiece{"w", {3, 4}, DType::F32, Slice::box({row, 0}, {rows, 4}), data};
  };
  const std::vector<std::vector<TensorPiece>> cases = {
      {box(0, 1), box(2, 1)},
      {box(0, 2), box(1, 2)},
      {box(0, 3), {"w", {3, 4}, DType::F32, Slice::range(5, 1), data}},
      {box(0, 2), {"w", {3, 4}, DType::F32, Slice::range(7, 4), data}},
  };
  for (const auto& pieces : cases) {
    const auto saved = save_checkpoint(root(), {.step = 1}, {}, pieces);
    EXPECT_NE(message_of(saved).find("saving step 1: tensor w"), std::string::npos)
        << message_of(saved);
    EXPECT_TRUE(fs::is_empty(root()));
  }
}

TEST_F(CheckpointTest, RanksThatDisagreeAboutATensorAreNamed) {
  const float data[12] = {};
  const auto part = [&](int rank, const Shape& shape) {
    const auto folder = begin_checkpoint(root(), 1);
    const TensorPiece piece{"w", shape, DType::F32, Slice::box({0, 0}, {2, 2}), data};
    return *write_shards(*folder, rank, {&piece, 1});
  };
  IndexPart contents = part(0, {4, 2});
  EXPECT_NE(message_of(merge_index_part(contents, part(1, {2, 4}))).find("w: one rank wrote"),
            std::string::npos);
  EXPECT_NE(message_of(merge_index_part(contents, part(0, {4, 2}))).find("two ranks wrote"),
            std::string::npos);
}

std::set<int64_t> steps_in(const std::string& root) {
  std::set<int64_t> steps;
  for (const auto& entry : fs::directory_iterator(root)) {
    steps.insert(step_of_folder_name(entry.path().filename().string()));
  }
  return steps;
}

TEST_F(CheckpointTest, TheLastKThatOpenAreKeptAndLaterStepsLeftAlone) {
  for (int64_t step = 1; step <= 5; ++step) ASSERT_TRUE(SmallState(step).save(root()).ok());
  EXPECT_EQ(steps_in(root()), (std::set<int64_t>{3, 4, 5}));
  // A run that went back to step 3 must not remove its own checkpoints instead of 4 and 5.
  ASSERT_TRUE(SmallState(3).save(root(), {.keep = 1}).ok());
  EXPECT_EQ(steps_in(root()), (std::set<int64_t>{3, 4, 5}));
  // A damaged checkpoint does not count and is removed once it is older than all that are kept.
  fs::remove(root() + "/step-000005/index.json");
  ASSERT_TRUE(SmallState(6).save(root(), {.keep = 2}).ok());
  EXPECT_EQ(steps_in(root()), (std::set<int64_t>{4, 5, 6}));
  ASSERT_TRUE(SmallState(7).save(root(), {.keep = 2}).ok());
  EXPECT_EQ(steps_in(root()), (std::set<int64_t>{6, 7}));
  ASSERT_TRUE(SmallState(8).save(root(), {.keep = 0}).ok());
  EXPECT_EQ(steps_in(root()), (std::set<int64_t>{6, 7, 8}));
}

TEST(Slice, TwoSlicesOverlapExactlyWhenTheyShareAnElement) {
  for (int seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    WholeTensor tensor{.shape = {draw(random, 1, 4), draw(random, 1, 4), draw(random, 1, 4)},
                       .dtype = DType::U8};
    for (int64_t i = 0; i < tensor.shape.num_elements(); ++i) tensor.data.push_back(std::byte(i));
    const auto draw_slice = [&] {
      if (draw(random, 0, 1) == 0) {
        const int64_t first = draw(random, 0, tensor.shape.num_elements());
        return Slice::range(first, draw(random, 0, tensor.shape.num_elements() - first));
      }
      int64_t begin[3], extent[3];
      for (int dim = 0; dim < 3; ++dim) {
        begin[dim] = draw(random, 0, tensor.shape[dim]);
        extent[dim] = draw(random, 0, tensor.shape[dim] - begin[dim]);
      }
      return Slice::box(Shape(begin), Shape(extent));
    };
    const Slice a = draw_slice(), b = draw_slice();
    const auto of_a = cut(tensor, a), of_b = cut(tensor, b);
    std::set<std::byte> both(of_a.begin(), of_a.end());
    both.insert(of_b.begin(), of_b.end());
    EXPECT_EQ(overlap(a, b, tensor.shape), both.size() < of_a.size() + of_b.size())
        << tensor.shape.to_string() << " " << a.to_string() << " " << b.to_string();
  }
}

}  // namespace
}  // namespace trireme
