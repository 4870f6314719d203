#pragma once

#include <string>
#include <utility>
#include <vector>

#include "collectives/plan.h"
#include "graph/op_work.h"
#include "predict/fit_prices.h"

namespace trireme {

// Measured seconds of single kernels and collectives.
struct MeasuredProduct {
  Product product;
  DType dtype = DType::F32;
  double seconds = 0.0;
};
struct MeasuredAttention {  // by one kernel that stores no scores
  AttentionWork work;
  bool is_backward = false;
  DType dtype = DType::F32;
  double seconds = 0.0;
};
struct MeasuredKernel {  // limited by memory
  double bytes = 0.0;    // read and written
  double seconds = 0.0;
};
// A kernel that makes no product, whose data lie in caches.
struct MeasuredVector {
  double bytes = 0.0;
  double operations = 0.0;  // on single numbers (graph/op_work.h)
  double seconds = 0.0;
};
struct MeasuredCollective {
  int ranks = 2;            // neighbours
  double sent_bytes = 0.0;  // by the rank that sends most
  double seconds = 0.0;
};
// A collective by an algorithm that sends messages.
struct MeasuredMessages {
  PlanRequest request;
  int64_t element_bytes = 4;
  double seconds = 0.0;
};

struct MeasuredOperators {
  std::vector<MeasuredProduct> products;
  std::vector<MeasuredAttention> attentions;
  std::vector<MeasuredKernel> kernels;
  std::vector<MeasuredVector> vectors;
  std::vector<MeasuredCollective> collectives;
  std::vector<MeasuredMessages> messages;
};

PriceErrors errors_of(const std::vector<MeasuredProduct>& measured, const Hardware& hardware);
PriceErrors errors_of(const std::vector<MeasuredAttention>& measured, const Hardware& hardware);
PriceErrors errors_of(const std::vector<MeasuredKernel>& measured, const Hardware& hardware);
PriceErrors errors_of(const std::vector<MeasuredVector>& measured, const Hardware& hardware);
PriceErrors errors_of(const std::vector<MeasuredCollective>& measured, const Hardware& hardware);
PriceErrors errors_of(const std::vector<MeasuredMessages>& measured, const Hardware& hardware);
// The errors of every group that is not empty, with its name.
std::vector<std::pair<std::string, PriceErrors>> errors_of(const MeasuredOperators& measured,
                                                           const Hardware& hardware);

// Fits the free numbers of a device and of its innermost links to these measurements, one curve
// after the other: kernels limited by memory, products, attention, collectives. The peaks, the
// bandwidth of memory and the speed of adding in `start` are taken as they are. The numbers of a
// curve that nobody measured stay those of `start`.
Hardware fit_operators(Hardware start, const MeasuredOperators& measured);

}  // namespace trireme
