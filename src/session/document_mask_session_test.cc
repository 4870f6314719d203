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
  const auto expect_same = [&](const std::vector<StepReport>& got, size_t first) {
    ASSERT_EQ(got.size(), want.size() - first);
    for (size_t step = 0; step < got.size(); ++step) {
      EXPECT_EQ(got[step].loss, want[step + first].loss);
      EXPECT_EQ(got[step].grad_norm, want[step + first].grad_norm);
    }
  };
  RunConfig dp = config;
  dp.parallel.dp = 2;
  dp.parallel.zero = 3;
  expect_same(reports_of(dp, "dp"), 0);
  RunConfig pp = config;
  pp.parallel.pp = 2;
  expect_same(reports_of(pp, "pp"), 0);
  RunConfig stopped = config;
  stopped.run.stop_after = 3;
  reports_of(stopped, "stopped");
  dp.run.stop_after = 0;
  expect_same(reports_of(dp, "stopped", ResumeMode::Auto), 3);
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
