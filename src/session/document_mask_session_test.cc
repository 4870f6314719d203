// Runs whose documents do not see each other (data.document_mask).

#include "data/token_file_writer.h"
#include "session/add_data_facts.h"
#include "session/session_data.h"
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

// Counts pairs of a query and a key between which no document ends, one by one.
int64_t pairs_within_documents(std::span<const int32_t> tokens, int32_t document_end) {
  int64_t pairs = 0;
  for (size_t query = 0; query < tokens.size(); ++query) {
    for (size_t key = query + 1; key-- > 0;) {
      if (key < query && tokens[key] == document_end) break;
      ++pairs;
    }
  }
  return pairs;
}

TEST_F(DocumentMaskSession, AttentionIsPricedByThePairsThatItComputes) {
  const RunConfig config = masked_run(1);
  HostFacts host;
  ASSERT_TRUE(add_data_facts(config, {}, host).ok());
  const Result<RunPlan> plan = plan_session(config, {}, {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->shape.document_keys, host.document_keys);

  const auto data = open_session_data(config, plan->model.vocab_size);
  const int64_t seq_len = plan->model.seq_len, num_samples = (int64_t{1} << 18) / seq_len;
  std::vector<int32_t> inputs(static_cast<size_t>(seq_len)), targets(inputs.size());
  int64_t pairs = 0;
  for (int64_t sample = 0; sample < num_samples; ++sample) {
    data->train->read_sample(uint64_t(sample), inputs, targets);
    pairs += pairs_within_documents(inputs, data->train->document_end());
  }
  const double keys = double(pairs) / double(num_samples * seq_len);
  EXPECT_DOUBLE_EQ(host.document_keys, keys);

  RunConfig unmasked = config;
  unmasked.data.document_mask = false;
  const Result<RunPlan> whole = plan_session(unmasked, {}, {});
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->shape.document_keys, 0.0);
  EXPECT_EQ(plan->flops_per_token.matmul, whole->flops_per_token.matmul);
  EXPECT_DOUBLE_EQ(plan->flops_per_token.attention,
                   whole->flops_per_token.attention * keys / (0.5 * double(seq_len + 1)));
}

TEST_F(DocumentMaskSession, WithoutDataTheLengthsAreUnknownAndEverySequenceIsOneDocument) {
  RunConfig config = masked_run(1), unmasked = config;
  for (RunConfig* one : {&config, &unmasked}) one->data.source = DataSource::Files;
  unmasked.data.document_mask = false;
  const Result<RunPlan> plan = plan_session(config, {}, {}), whole = plan_session(unmasked, {}, {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(plan->shape.document_keys, 0.0);
  EXPECT_EQ(plan->flops_per_token.attention, whole->flops_per_token.attention);
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
