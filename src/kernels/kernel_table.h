#pragma once

#include <string_view>

#include "device/isa.h"
#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/convolution/convolution.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/matmul/grouped_matmul.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matrix_vector.h"
#include "kernels/matmul/quantized_matmul.h"
#include "kernels/moe/moe.h"
#include "kernels/norm/norm.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/pool/pool.h"
#include "kernels/rope/rope.h"
#include "kernels/scale/scale.h"

namespace trireme {

// The kernels of one device. They are chosen once, before step 1.
struct KernelTable {
  std::string_view name;
  void (*matmul)(Stream&, const MatmulArgs&);
  void (*grouped_matmul)(Stream&, const GroupedMatmulArgs&);
  void (*column_sum)(Stream&, const ColumnSumArgs&);
  void (*row_dots)(Stream&, const RowDotsArgs&);
  void (*row_combination)(Stream&, const RowCombinationArgs&);
  void (*quantized_matmul)(Stream&, const QuantizedMatmulArgs&);
  void (*attention_forward)(Stream&, const AttentionForwardArgs&);
  void (*attention_backward)(Stream&, const AttentionBackwardArgs&);
  void (*attention_merge)(Stream&, const AttentionMergeArgs&);
  void (*norm_forward)(Stream&, const NormForwardArgs&);
  void (*norm_backward_input)(Stream&, const NormBackwardInputArgs&);
  void (*norm_backward_weight)(Stream&, const NormBackwardWeightArgs&);
  void (*scale_forward)(Stream&, const ScaleForwardArgs&);
  void (*scale_backward_input)(Stream&, const ScaleBackwardInputArgs&);
  void (*scale_backward_weight)(Stream&, const ScaleBackwardWeightArgs&);
  void (*activation_forward)(Stream&, const ActivationForwardArgs&);
  void (*activation_backward)(Stream&, const ActivationBackwardArgs&);
  void (*swiglu_forward)(Stream&, const SwigluForwardArgs&);
  void (*swiglu_backward)(Stream&, const SwigluBackwardArgs&);
  void (*embedding_forward)(Stream&, const EmbeddingForwardArgs&);
  void (*embedding_backward)(Stream&, const EmbeddingBackwardArgs&);
  void (*rope)(Stream&, const RopeArgs&);
  void (*softmax_part)(Stream&, const SoftmaxPartArgs&);
  void (*cross_entropy)(Stream&, const CrossEntropyArgs&);
  void (*cross_entropy_gradient)(Stream&, const CrossEntropyGradientArgs&);
  void (*route)(Stream&, const RouteArgs&);
  void (*route_backward)(Stream&, const RouteBackwardArgs&);
  void (*count_visits)(Stream&, const CountVisitsArgs&);
  void (*sort_visits)(Stream&, const SortVisitsArgs&);
  void (*gather_rows)(Stream&, const GatherRowsArgs&);
  void (*combine_rows)(Stream&, const CombineRowsArgs&);
  void (*expert_activation)(Stream&, const ExpertActivationArgs&);
  void (*expert_activation_backward)(Stream&, const ExpertActivationBackwardArgs&);
  void (*convolution_forward)(Stream&, const ConvolutionForwardArgs&);
  void (*convolution_backward_input)(Stream&, const ConvolutionBackwardInputArgs&);
  void (*convolution_backward_weight)(Stream&, const ConvolutionBackwardWeightArgs&);
  void (*batch_norm_moments)(Stream&, const BatchNormMomentsArgs&);
  void (*batch_norm_statistics)(Stream&, const BatchNormStatisticsArgs&);
  void (*batch_norm_forward)(Stream&, const BatchNormForwardArgs&);
  void (*batch_norm_backward_sums)(Stream&, const BatchNormBackwardSumsArgs&);
  void (*batch_norm_backward_weight)(Stream&, const BatchNormBackwardWeightArgs&);
  void (*batch_norm_backward_input)(Stream&, const BatchNormBackwardInputArgs&);
  void (*pool_forward)(Stream&, const PoolForwardArgs&);
  void (*pool_backward)(Stream&, const PoolBackwardArgs&);
  void (*dropout)(Stream&, const DropoutArgs&);
  void (*convert)(Stream&, const ConvertArgs&);
  void (*copy_matrix)(Stream&, const CopyMatrixArgs&);
  void (*add)(Stream&, const AddArgs&);
  void (*sum)(Stream&, const SumArgs&);
  void (*zero)(Stream&, const ZeroArgs&);
  void (*fill_normal)(Stream&, const FillNormalArgs&);
  void (*squared_norm)(Stream&, const SquaredNormArgs&);
  void (*exact_squared_norm)(Stream&, const ExactSquaredNormArgs&);
  void (*adamw)(Stream&, const AdamWArgs&);
  void (*sgd)(Stream&, const SgdArgs&);
  void (*momentum)(Stream&, const MomentumArgs&);
  void (*weighted_sum)(Stream&, const WeightedSumArgs&);
};

// Naive kernels with double accumulation, the oracle of the tests.
const KernelTable& reference_kernels();
// The fast kernels compiled for one instruction set.
const KernelTable& cpu_kernels(Isa isa);

}  // namespace trireme
