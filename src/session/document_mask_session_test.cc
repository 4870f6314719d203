// Runs whose documents do not see each other (data.document_mask).

#include "data/token_file_writer.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

class DocumentMaskSession : public SessionTest {
 protected:
  static RunConfig masked_run(int64_t steps) {
    RunConfig config = tiny_run(ComputeChoice::Fp32, steps);
    config.data.source = DataSource::Synthetic;
    config.data.document_mask = true;
    config.batch.global_sequences = 4;
    config.run.reproducible = Reproducible::Layout;
    return config;
  }
};

TEST_F(DocumentMaskSession, HasTheSameBitsOnEveryLayoutAndWhenItIsResumed) {
  const RunConfig config = masked_run(6);
  const std::vector<StepReport> want = reports_of(config, "one");
  ASSERT_EQ(want.size(), 6u);
  RunConfig unmasked = config;
  unmasked.data.document_mask = false;
  EXPECT_NE(reports_of(unmasked, "unmasked")[0].loss, want[0].loss);
  expect_same_on_layouts_and_resumed(config, want);
}

TEST_F(DocumentMaskSession, AFileThatDoesNotNameTheTokenIsRefused) {
  std::filesystem::create_directories(root_);
  auto writer = TokenFileWriter::create(path("plain.tok"), 64, 1, false);
  ASSERT_TRUE(writer->append(std::vector<int32_t>(700, 3)).ok());
  ASSERT_TRUE(writer->finish({}).ok());
  RunConfig config = masked_run(1);
  config.data.source = DataSource::Files;
  config.data.train = path("plain.tok");
  const auto result = outcome_of(config, "run").result;
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("set data.tokenizer"), std::string::npos)
      << result.error().message;
}

}  // namespace
}  // namespace trireme
