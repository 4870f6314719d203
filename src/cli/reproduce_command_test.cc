#include "cli/reproduce_command.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

Result<std::string> printed_table(const ReproduceOptions& options) {
  std::ostringstream out, err;
  CommandIo io{out, err};
  TRIREME_TRY(code, run_reproduce(options, io));
  EXPECT_EQ(code, 0);
  return out.str();
}

TEST(ReproduceCommand, JsonHasTheErrorsOfItsRows) {
  const Json json = parse_json(printed_table({.name = "korthikanti-t5", .json = true}).value());
  EXPECT_EQ(json["name"], "korthikanti-t5");
  EXPECT_TRUE(json["source"].is_string());
  double sum = 0.0, greatest = 0.0, bias = 0.0;
  for (const Json& row : json["rows"]) {
    const double error = row["predicted"].get<double>() / row["measured"].get<double>() - 1.0;
    EXPECT_TRUE(row["row"].is_string());
    EXPECT_NEAR(row["error"].get<double>(), error, 1e-12);
    EXPECT_EQ(row["time"]["step"], row["predicted"]);
    sum += std::abs(error);
    greatest = std::max(greatest, std::abs(error));
    bias += error;
  }
  const double count = double(json["rows"].size());
  EXPECT_NEAR(json["mean_abs_error"].get<double>(), sum / count, 1e-12);
  EXPECT_NEAR(json["max_abs_error"].get<double>(), greatest, 1e-12);
  EXPECT_NEAR(json["bias"].get<double>(), bias / count, 1e-12);
  EXPECT_GT(json["baselines"]["constant"].get<double>(), 0.0);
  EXPECT_GT(json["baselines"]["roofline"].get<double>(), 0.0);
}

// A computed table has nothing that a constant speed could predict.
TEST(ReproduceCommand, BaselinesOfAComputedTableAreNull) {
  const Json json = parse_json(printed_table({.name = "zero-bubble-t5", .json = true}).value());
  EXPECT_TRUE(json["baselines"]["constant"].is_null());
  EXPECT_TRUE(json["baselines"]["roofline"].is_null());
  EXPECT_EQ(json["max_abs_error"], 0.0);
}

TEST(ReproduceCommand, TextHasEveryRowAndTheSplitOnRequest) {
  const std::string text = printed_table({.name = "megatron-t1"}).value();
  EXPECT_EQ(text.find("megatron-t1: "), 0u);
  EXPECT_NE(text.find("1008B on 3072"), text.npos);
  EXPECT_NE(text.find("constant, 142 TFLOP/s"), text.npos);
  EXPECT_EQ(text.find("bubble"), text.npos);
  EXPECT_NE(printed_table({.name = "megatron-t1", .split = true}).value().find("bubble"),
            text.npos);
}

TEST(ReproduceCommand, RefusesAnUnknownTable) {
  const Result<std::string> refused = printed_table({.name = "megatron"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
}

}  // namespace
}  // namespace trireme
