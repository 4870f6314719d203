#pragma once

#include "kernels/kernel_table.h"

// The fast kernels, compiled once for each instruction set.
namespace trireme::TRIREME_ISA {

extern const KernelTable kKernels;

void matmul(Stream& stream, const MatmulArgs& args);
void grouped_matmul(Stream& stream, const GroupedMatmulArgs& args);
void column_sum(Stream& stream, const ColumnSumArgs& args);
void row_dots(Stream& stream, const RowDotsArgs& args);
void row_combination(Stream& stream, const RowCombinationArgs& args);
void quantized_matmul(Stream& stream, const QuantizedMatmulArgs& args);
void attention_forward(Stream& stream, const AttentionForwardArgs& args);
void attention_backward(Stream& stream, const AttentionBackwardArgs& args);
void attention_merge(Stream& stream, const AttentionMergeArgs& args);
void norm_forward(Stream& stream, const NormForwardArgs& args);
void norm_backward_input(Stream& stream, const NormBackwardInputArgs& args);
void norm_backward_weight(Stream& stream, const NormBackwardWeightArgs& args);
void scale_forward(Stream& stream, const ScaleForwardArgs& args);
void scale_backward_input(Stream& stream, const ScaleBackwardInputArgs& args);
void scale_backward_weight(Stream& stream, const ScaleBackwardWeightArgs& args);
void activation_forward(Stream& stream, const ActivationForwardArgs& args);
void activation_backward(Stream& stream, const ActivationBackwardArgs& args);
void swiglu_forward(Stream& stream, const SwigluForwardArgs& args);
void swiglu_backward(Stream& stream, const SwigluBackwardArgs& args);
void embedding_forward(Stream& stream, const EmbeddingForwardArgs& args);
void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args);
void rope(Stream& stream, const RopeArgs& args);
void softmax_part(Stream& stream, const SoftmaxPartArgs& args);
void cross_entropy(Stream& stream, const CrossEntropyArgs& args);
void cross_entropy_gradient(Stream& stream, const CrossEntropyGradientArgs& args);
void route(Stream& stream, const RouteArgs& args);
void route_backward(Stream& stream, const RouteBackwardArgs& args);
void count_visits(Stream& stream, const CountVisitsArgs& args);
void sort_visits(Stream& stream, const SortVisitsArgs& args);
void gather_rows(Stream& stream, const GatherRowsArgs& args);
void combine_rows(Stream& stream, const CombineRowsArgs& args);
void expert_activation(Stream& stream, const ExpertActivationArgs& args);
void expert_activation_backward(Stream& stream, const ExpertActivationBackwardArgs& args);
void convolution_forward(Stream& stream, const ConvolutionForwardArgs& args);
void convolution_backward_input(Stream& stream, const ConvolutionBackwardInputArgs& args);
void convolution_backward_weight(Stream& stream, const ConvolutionBackwardWeightArgs& args);
void batch_norm_moments(Stream& stream, const BatchNormMomentsArgs& args);
void batch_norm_statistics(Stream& stream, const BatchNormStatisticsArgs& args);
void batch_norm_forward(Stream& stream, const BatchNormForwardArgs& args);
void batch_norm_backward_sums(Stream& stream, const BatchNormBackwardSumsArgs& args);
void batch_norm_backward_weight(Stream& stream, const BatchNormBackwardWeightArgs& args);
void batch_norm_backward_input(Stream& stream, const BatchNormBackwardInputArgs& args);
void pool_forward(Stream& stream, const PoolForwardArgs& args);
void pool_backward(Stream& stream, const PoolBackwardArgs& args);
void dropout(Stream& stream, const DropoutArgs& args);
void convert(Stream& stream, const ConvertArgs& args);
void copy_matrix(Stream& stream, const CopyMatrixArgs& args);
void add(Stream& stream, const AddArgs& args);
void sum(Stream& stream, const SumArgs& args);
void zero(Stream& stream, const ZeroArgs& args);
void fill_normal(Stream& stream, const FillNormalArgs& args);
void squared_norm(Stream& stream, const SquaredNormArgs& args);
void exact_squared_norm(Stream& stream, const ExactSquaredNormArgs& args);
void adamw(Stream& stream, const AdamWArgs& args);
void sgd(Stream& stream, const SgdArgs& args);
void momentum(Stream& stream, const MomentumArgs& args);
void weighted_sum(Stream& stream, const WeightedSumArgs& args);

}  // namespace trireme::TRIREME_ISA
