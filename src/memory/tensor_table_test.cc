#include "memory/tensor_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/check.h"

namespace trireme {
namespace {

TensorTable random_table(std::mt19937& random, int num_tensors) {
  const DType dtypes[] = {DType::F32, DType::BF16, DType::F64, DType::I32, DType::U8};
  TensorTable table;
  for (int i = 0; i < num_tensors; ++i) {
    const Shape shape{int64_t(random() % 7), 1 + int64_t(random() % 40)};
    table.add(fmt::format("t{}", i), shape, dtypes[random() % 5], random() % 4 == 0);
  }
  return table;
}

TEST(TensorTable, TensorsLieBehindEachOtherOnBordersUnlessTheyAdjoin) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    TensorTable table;
    int64_t end = 0;
    for (int i = 0; i < 30; ++i) {
      const bool adjoins = random() % 3 == 0;
      const Shape shape{1 + int64_t(random() % 90)};
      table.add(std::to_string(i), shape, random() % 2 ? DType::F32 : DType::BF16, adjoins);
      const TensorSpec& tensor = table.tensors().back();
      if (adjoins) {
        EXPECT_EQ(tensor.offset, end) << "seed " << seed;
      } else {
        EXPECT_EQ(tensor.offset % 64, 0) << "seed " << seed;
        EXPECT_GE(tensor.offset, end) << "seed " << seed;
        EXPECT_LT(tensor.offset, end + 64) << "seed " << seed;
      }
      end = tensor.offset + tensor.bytes();
      EXPECT_EQ(tensor.bytes(), shape.num_elements() * size_of(tensor.dtype));
    }
    EXPECT_GE(table.bytes(), end);
    EXPECT_LT(table.bytes(), end + 64);
    EXPECT_EQ(table.bytes() % 64, 0);
  }
}

TEST(TensorTable, AppendingMovesATableAsAWhole) {
  std::mt19937 random(7);
  const TensorTable first = random_table(random, 9);
  const TensorTable second = random_table(random, 11);
  TensorTable joined;
  joined.append("a/", first);
  joined.append("b/", second);
  EXPECT_EQ(joined.bytes(), first.bytes() + second.bytes());
  ASSERT_EQ(joined.tensors().size(), first.tensors().size() + second.tensors().size());
  for (const TensorSpec& tensor : second.tensors()) {
    EXPECT_EQ(joined.at("b/" + tensor.name).offset, first.bytes() + tensor.offset);
  }
}

TEST(TensorTable, ANameStandsForOneTensor) {
  TensorTable table;
  table.add("x", Shape{3}, DType::F32);
  EXPECT_THROW(table.add("x", Shape{4}, DType::F32), ContractError);
  EXPECT_THROW(table.at("y"), ContractError);
  EXPECT_FALSE(table.contains("y"));
}

}  // namespace
}  // namespace trireme
