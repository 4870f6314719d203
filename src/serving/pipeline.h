#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Where items come from: a camera, a microphone, users. An item is a frame, a sentence, a prompt.
struct Source {
  std::string name;
  std::string tier;  // the tier in which its items arise
  double items_per_s = 0.0;
  double item_bytes = 0.0;
};

// An edge: every item of a source or of another operator becomes `items` items of this operator.
struct OperatorInput {
  bool is_source = false;
  int index = 0;  // of the source or operator
  double items = 1.0;
};

// A language model whose speed is not measured but priced (serving/language_model_speed.h).
struct LanguageModelUse {
  std::string file;  // such as "../../models/llama3-8b.toml"; "": not a language model
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t batch = 1;  // requests that a worker decodes together
};

// One of the models that an operator can use.
struct ServedModel {
  std::string name;
  double accuracy = 1.0;  // share of right answers if its input is right
  double memory_bytes = 0.0;
  double output_bytes = 0.0;             // of one item for the next operator
  std::map<std::string, double> speeds;  // by worker kind: items per second of one worker
  LanguageModelUse language_model = {};
  // Of a language model, where the device is known and the speed is not the priced one.
  std::map<std::string, double> priced = {};
  std::map<std::string, std::string> measured = {};  // files by worker kind
};

// A step of the pipeline. Several inputs are joined: one item of each makes one request.
struct Operator {
  std::string name;
  std::vector<OperatorInput> inputs;
  std::vector<ServedModel> models;
  double weight = 1.0;  // AccuracyRule::Mean: its share of the answers
};

// How accuracies of models make that of the pipeline: their product (errors are independent and
// every step must be right), their mean weighted by Operator::weight (an item gets its answer from
// one of the operators), or what was measured for the whole combination.
enum class AccuracyRule : unsigned char { Product, Mean, Measured };
inline constexpr std::string_view kAccuracyRuleNames[] = {"product", "mean", "measured"};

// One model for every operator, by its index.
using ModelChoice = std::vector<int>;

struct MeasuredCombination {
  ModelChoice choice;
  double accuracy = 0.0;
};

// The longest latencies that are allowed, of all requests on average and of all but the slowest 5
// %. 0: any.
struct LatencyLimits {
  double mean_s = 0.0;
  double p95_s = 0.0;

  bool are_stated() const { return mean_s > 0.0 || p95_s > 0.0; }
  // The largest share of a limit that these latencies are; above 1 they break one.
  double share(double mean, double p95) const;
};

// A graph of operators without cycles. Every operator stands behind those that it reads.
struct ServedPipeline {
  std::string name;
  double accuracy = 0.0;     // the target
  double utilization = 0.8;  // the largest share of time for which workers and links may be busy
  AccuracyRule rule = AccuracyRule::Product;
  LatencyLimits latency = {};
  std::vector<Source> sources;
  std::vector<Operator> operators;
  std::vector<MeasuredCombination> combinations;  // AccuracyRule::Measured

  // [operator] items per second.
  std::vector<double> rates() const;
  // The accuracy of a combination, from 0 to 1; negative: it was not measured.
  double accuracy_of(const ModelChoice& choice) const;
  // The largest accuracy that the combinations with these models have; -1 in `choice`: any model.
  double most_accuracy(const ModelChoice& choice) const;
  int64_t num_combinations() const;  // at most 2^62
  // Bytes of an item on an edge, if the operators use these models.
  double input_bytes(const OperatorInput& input, const ModelChoice& choice) const;
  // "detector=large, tracker=small"
  std::string text_of(const ModelChoice& choice) const;
};

}  // namespace trireme
