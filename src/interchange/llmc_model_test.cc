#include "interchange/llmc_model.h"

#include <cstring>
#include <fstream>

#include "base/file.h"
#include "checkpoint/checkpoint_fixture.h"
#include "interchange/interchange.h"
#include "interchange/interchange_fixture.h"
#include "interchange/llmc_header.h"

namespace trireme {
namespace {

class LlmcModel : public FolderTest {
 protected:
  std::string path() const { return root() + "/model.bin"; }
};

TEST_F(LlmcModel, ModelsComeBackAndSoDoTheirFiles) {
  for (const char* name : {"gpt2", "gpt2_no_bias", "gpt2_no_gain"}) {
    const InterchangeModel model = random_model(name);
    for (const auto& [dtype, rounding] :
         {std::pair(DType::F32, Rounding::None), std::pair(DType::BF16, Rounding::BF16)}) {
      ASSERT_TRUE(write_llmc_model(model, path(), dtype).ok());
      const auto again = read_llmc_model(path());
      ASSERT_TRUE(again.ok()) << message_of(again);
      EXPECT_EQ(again->dtype, dtype);
      const Status same = compare_weights(model.weights, again->weights, rounding);
      EXPECT_TRUE(same.ok()) << message_of(same);
      if (rounding == Rounding::None) {
        EXPECT_EQ(compare_logits(model.weights, again->weights, 1).greatest_difference, 0.0);
      }
      const std::string bytes = read_text_file(path()).value();
      ASSERT_TRUE(write_llmc_model(*again, path(), dtype).ok());
      EXPECT_EQ(read_text_file(path()).value(), bytes);
    }
  }
}

// Each kind holds all layers. The vocabulary is padded with rows of zeros.
TEST_F(LlmcModel, TheFileIsAListOfKinds) {
  const InterchangeModel model = random_model("gpt2");
  ASSERT_TRUE(write_llmc_model(model, path(), DType::F32).ok());
  const std::string bytes = read_text_file(path()).value();
  const auto element = [&](int64_t index) {
    float value = 0;
    std::memcpy(&value, bytes.data() + kLlmcHeaderBytes + 4 * index, 4);
    return value;
  };
  const int64_t C = 24, V = 45, padded = 128, T = 10, L = 2;
  EXPECT_EQ(element(44 * C + 5), model.weights.at("embedding.tokens")[44 * C + 5]);
  for (int64_t i = V * C; i < padded * C; ++i) ASSERT_EQ(element(i), 0.0f);
  const int64_t ln1w = (padded + T) * C;
  EXPECT_EQ(element(ln1w + C + 3), model.weights.at("layers.1.norm1.gain")[3]);
  const int64_t qkvw = ln1w + 2 * L * C;
  EXPECT_EQ(element(qkvw + 3 * C * C + C * C + 7 * C + 1),
            model.weights.at("layers.1.attn.wk")[7 * C + 1]);
}

TEST_F(LlmcModel, OtherModelsAreRefusedAndSoAreDamagedFiles) {
  for (const char* name : {"llama", "gpt2_erf_untied", "gpt2_relu2"}) {
    EXPECT_EQ(write_llmc_model(random_model(name), path(), DType::F32).error().kind,
              ErrorKind::Infeasible);
  }
  InterchangeModel wide = random_model("gpt2");
  wide.config.d_ff = 40;
  wide.weights = Weights(*resolve_model(wide.config, 0));
  EXPECT_EQ(write_llmc_model(wide, path(), DType::F32).error().kind, ErrorKind::Infeasible);
  ASSERT_TRUE(write_llmc_model(random_model("gpt2"), path(), DType::F32).ok());
  const std::string whole = read_text_file(path()).value();
  for (const size_t size :
       {size_t{0}, size_t{1000}, size_t{1024}, whole.size() - 1, whole.size() + 1}) {
    std::string bytes = whole;
    bytes.resize(size);
    std::ofstream(path(), std::ios::binary) << bytes;
    EXPECT_FALSE(read_llmc_model(path()).ok()) << size;
  }
  for (size_t word = 0; word < 8; ++word) {
    for (const int32_t value : {-1, 0, 1, 3, 1 << 24, INT32_MAX}) {
      std::string bytes = whole;
      int32_t was = 0;
      std::memcpy(&was, bytes.data() + 4 * word, 4);
      std::memcpy(bytes.data() + 4 * word, &value, 4);
      std::ofstream(path(), std::ios::binary) << bytes;
      // A wrong number of heads is not noticed if it divides, because it is nowhere else in the
      // file.
      if (value != was && !(word == 5 && 24 % std::max(1, value) == 0 && value > 0) &&
          !(word == 3 && value > 0 && value < 128)) {
        EXPECT_FALSE(read_llmc_model(path()).ok()) << word << " = " << value;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
