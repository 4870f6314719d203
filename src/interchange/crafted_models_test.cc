// Models of other formats that are made to cost much: each is refused soon, in little memory, with
// its reason.

#include <fmt/format.h>

#include <cstring>

#include "base/bounded_child.h"
#include "base/file.h"
#include "checkpoint/checkpoint_fixture.h"
#include "interchange/foreign_model.h"
#include "interchange/gguf_metadata.h"
#include "interchange/hugging_face_index.h"
#include "interchange/interchange_fixture.h"
#include "interchange/llmc_header.h"
#include "interchange/parse_gguf.h"
#include "interchange/print_gguf.h"

namespace trireme {
namespace {

constexpr int64_t kExtraBytes = int64_t{64} << 20;

TEST(CraftedIndex, OfHuggingFaceWithManyTensors) {
  std::string json = "{\"weight_map\":{\"a\":\"f\"";
  for (int i = 0; i < 700000; ++i) json += fmt::format(",\"{}\":\"f\"", i);
  const ChildOutcome outcome = run_in_child([&] {
    const auto files = parse_hugging_face_index(json + "}}");
    return files.ok() ? std::string("read") : files.error().message;
  });
  EXPECT_NE(outcome.output.find("more than 524288 tensors"), std::string::npos) << outcome.output;
  EXPECT_LT(outcome.seconds, kParserDeadlineS);
}

std::string gguf_with(const std::string& key, uint64_t value) {
  GgufHeader header;
  EXPECT_TRUE(add_gguf_model(*resolve_model(small_model("llama"), 0), header).ok());
  for (auto& [name, held] : header.values) {
    if (name == key) held = gguf_u32(value);
  }
  header.tensors.push_back({"token_embd.weight", Shape{45, 24}});
  std::string file = print_gguf_header(header);
  file.resize(file.size() + 45 * 24 * 4);
  return file;
}

class CraftedModel : public FolderTest {
 protected:
  // The model of a file with these bytes is refused as damaged.
  void expect_damaged(const std::string& bytes, const std::string& said) {
    const std::string path = root() + "/model";
    ASSERT_TRUE(write_file_atomically(path, bytes).ok());
    expect_damaged_path(path, said);
  }
  void expect_damaged_path(const std::string& path, const std::string& said) {
    const ChildOutcome outcome = run_in_child([&] {
      const auto model = read_foreign_model(path);
      return model.ok() ? std::string("read")
                        : fmt::format("{} {}", int(model.error().kind), model.error().message);
    });
    EXPECT_EQ(outcome.failure, "") << said;
    EXPECT_EQ(outcome.output.substr(0, 1), std::to_string(int(ErrorKind::Damaged)))
        << outcome.output;
    EXPECT_NE(outcome.output.find(said), std::string::npos) << outcome.output;
    EXPECT_LT(outcome.seconds, kParserDeadlineS);
    if (kMeasuresMemory) {
      EXPECT_LT(outcome.peak_bytes, kExtraBytes) << said;
    }
  }
};

TEST_F(CraftedModel, NoListIsMadeOfLayersThatTheFileDoesNotHave) {
  for (const uint64_t layers : {uint64_t{2}, uint64_t{4096}, uint64_t{65535}, uint64_t{1} << 24}) {
    expect_damaged(gguf_with("llama.block_count", layers), "block_count");
  }
  const LlmcModelHeader header{.seq_len = 1,
                               .vocab_size = 1,
                               .layers = 65535,
                               .heads = 1,
                               .d_model = 1,
                               .padded_vocab_size = 1};
  std::string llmc = print_llmc_model_header(header);
  llmc.resize(static_cast<size_t>(llmc_file_bytes(header)));
  expect_damaged(llmc, "model.layers = 65535 must be at least 1 and at most 4096");
}

TEST_F(CraftedModel, ArraysOfAHeaderHaveALimitTogether) {
  GgufHeader header;
  for (int i = 0; i < 3; ++i) {
    header.values.emplace_back(fmt::format("a{}", i),
                               gguf_strings(std::vector<std::string>(size_t{1} << 20)));
  }
  const std::string file = print_gguf_header(header);
  const ChildOutcome outcome = run_in_child([&] {
    const auto read = parse_gguf_header(std::as_bytes(std::span(file)), int64_t(file.size()));
    return read.ok() ? std::string("read") : read.error().message;
  });
  EXPECT_NE(outcome.output.find("elements of arrays"), std::string::npos) << outcome.output;
  if (kMeasuresMemory) {
    EXPECT_LT(outcome.peak_bytes, 2 * kExtraBytes);
  }
}

TEST_F(CraftedModel, ATensorOfFiveDimsIsDamageOfTheFile) {
  const std::string folder = root() + "/hf";
  std::filesystem::create_directories(folder);
  const InterchangeModel model = random_model("gpt2");
  ASSERT_TRUE(write_foreign_model(model, folder, {}).ok());
  std::string bytes = read_text_file(folder + "/model.safetensors").value();
  const size_t at = bytes.find("\"shape\":[45,24]");
  ASSERT_NE(at, std::string::npos);
  // The file has spaces behind its header: the length stays.
  const std::string shape = "\"shape\":[1,1,1,45,24]";
  bytes.replace(at, std::strlen("\"shape\":[45,24]"), shape);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  bytes.erase(8 + length, shape.size() - std::strlen("\"shape\":[45,24]"));
  ASSERT_TRUE(write_file_atomically(folder + "/model.safetensors", bytes).ok());
  expect_damaged_path(folder, "[1, 1, 1, 45, 24]");
}

TEST_F(CraftedModel, ConfigJsonOfManyLayersAndOfDeepNesting) {
  const std::string folder = root() + "/hf";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(write_foreign_model(random_model("gpt2"), folder, {}).ok());
  const std::string config = read_text_file(folder + "/config.json").value();
  for (const char* layers : {"4000", "65535"}) {
    std::string more = config;
    const size_t at = more.find("\"n_layer\": 2");
    ASSERT_NE(at, std::string::npos) << config;
    more.replace(at, 12, std::string("\"n_layer\": ") + layers);
    ASSERT_TRUE(write_file_atomically(folder + "/config.json", more).ok());
    expect_damaged_path(folder, layers);
  }
  ASSERT_TRUE(write_file_atomically(folder + "/config.json", std::string(10u << 20, '[')).ok());
  expect_damaged_path(folder, "deeper than 32");
}

}  // namespace
}  // namespace trireme
