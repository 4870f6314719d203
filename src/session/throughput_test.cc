#include "session/throughput.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

RunConfig tokens_config() {
  RunConfig config;
  config.model.layers = 1;
  config.model.d_model = 32;
  config.model.heads = 2;
  config.model.vocab_size = 64;
  config.model.seq_len = 16;
  return config;
}

RunConfig images_config() {
  RunConfig config;
  config.model.family = ModelFamily::ConvNet;
  config.data.source = DataSource::Images;
  config.model.layers = 1;
  config.model.image_size = 8;
  config.model.image_channels = 1;
  config.model.seq_len = 1;
  config.model.vocab_size = 10;
  return config;
}

// The data are generated, whether the model reads tokens or images and whatever [data] names.
TEST(Throughput, StepsAreTimedWithoutFiles) {
  HostFacts host;
  host.num_cores = 2;
  for (RunConfig config : {tokens_config(), images_config()}) {
    config.batch.micro_sequences = 4;
    config.parallel.dp = 2;
    config.run.threads_per_rank = 1;
    const auto measured = measure_throughput(config, host, 1, 3, true, {});
    ASSERT_TRUE(measured.ok()) << measured.error().message;
    EXPECT_EQ(measured.value().step_seconds.size(), 3u);
    EXPECT_GT(measured.value().tokens_per_s, 0.0);
    EXPECT_TRUE(std::isfinite(measured.value().final_loss));
    EXPECT_FALSE(measured.value().ops.measured.empty());
  }
}

}  // namespace
}  // namespace trireme
