// Runs on mixtures of token files. In some files the loss leaves tokens out.

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "data/token_file_writer.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

class MixtureSession : public SessionTest {
 protected:
  // A few tokens that follow each other; of a masked file the loss counts ten of seventy.
  std::string token_file(const std::string& name, int32_t stride, bool is_masked) const {
    std::filesystem::create_directories(root_);
    std::vector<int32_t> tokens(700);
    for (size_t t = 0; t < tokens.size(); ++t) {
      const int32_t token = int32_t(t) * stride % 61;
      tokens[t] = is_masked && t / 10 % 7 != 0 ? uncounted(token) : token;
    }
    auto writer = TokenFileWriter::create(path(name), 64, 1, is_masked);
    EXPECT_TRUE(writer->append(tokens).ok());
    EXPECT_TRUE(writer->finish({}).ok());
    return path(name);
  }

  RunConfig mixed_run(int64_t steps) const {
    RunConfig config = tiny_run(ComputeChoice::Fp32, steps);
    config.data.source = DataSource::Files;
    config.data.train_mixture = {{token_file("plain.tok", 3, false), 1.0},
                                 {token_file("masked.tok", 5, true), 2.0}};
    config.batch.global_sequences = 4;
    config.run.reproducible = Reproducible::Layout;
    return config;
  }
};

TEST_F(MixtureSession, HasTheSameBitsOnEveryLayoutAndWhenItIsResumed) {
  const RunConfig config = mixed_run(6);
  const std::vector<StepReport> want = reports_of(config, "one");
  ASSERT_EQ(want.size(), 6u);
  expect_same_on_layouts_and_resumed(config, want);
}

TEST_F(MixtureSession, TheSummaryNamesTheFilesAndTheirShares) {
  ASSERT_TRUE(outcome_of(mixed_run(2), "run").result.ok());
  const auto summary = parse_json(read_text_file(path("run/summary.json")).value());
  ASSERT_EQ(summary.at("data").size(), 2u);
  EXPECT_EQ(summary["data"][0]["path"], path("plain.tok"));
  EXPECT_NEAR(summary["data"][1]["share"].get<double>(), 2.0 / 3.0, 1e-12);
  EXPECT_EQ(summary["model"]["vocab_size"], 64);
  EXPECT_NEAR(summary["baselines"]["uniform"].get<double>(), 4.1589, 1e-3);
}

}  // namespace
}  // namespace trireme
