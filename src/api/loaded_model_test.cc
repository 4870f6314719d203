#include "api/loaded_model.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(LoadedModel, OneThreadIsUsefulWhereEveryMatrixIsOneTile) {
  const std::vector<ParamSpec> small = {
      {.name = "bias", .shape = Shape{1 << 20}},  // no matrix
      {.name = "matrix", .shape = Shape{512, 128}},
  };
  EXPECT_EQ(useful_threads(small, DType::BF16, 2), 1);
  EXPECT_EQ(useful_threads(small, DType::F32, 2), 2);
  EXPECT_EQ(useful_threads({{.name = "matrix", .shape = Shape{513, 128}}}, DType::BF16, 2), 2);
}

}  // namespace
}  // namespace trireme
