#include "kernels/kernel_table.h"

namespace trireme {

const KernelTable& reference_kernels() {
  static constexpr KernelTable kReference = {
      .name = "ref",
      .matmul = matmul_ref,
      .grouped_matmul = grouped_matmul_ref,
      .column_sum = column_sum_ref,
      .row_dots = row_dots_ref,
      .row_combination = row_combination_ref,
      .attention_forward = attention_forward_ref,
      .attention_backward = attention_backward_ref,
      .attention_merge = attention_merge_ref,
      .norm_forward = norm_forward_ref,
      .norm_backward_input = norm_backward_input_ref,
      .norm_backward_weight = norm_backward_weight_ref,
      .scale_forward = scale_forward_ref,
      .scale_backward_input = scale_backward_input_ref,
      .scale_backward_weight = scale_backward_weight_ref,
      .activation_forward = activation_forward_ref,
      .activation_backward = activation_backward_ref,
      .swiglu_forward = swiglu_forward_ref,
      .swiglu_backward = swiglu_backward_ref,
      .embedding_forward = embedding_forward_ref,
      .embedding_backward = embedding_backward_ref,
      .rope = rope_ref,
      .softmax_part = softmax_part_ref,
      .cross_entropy = cross_entropy_ref,
      .cross_entropy_gradient = cross_entropy_gradient_ref,
      .route = route_ref,
      .route_backward = route_backward_ref,
      .count_visits = count_visits_ref,
      .sort_visits = sort_visits_ref,
      .gather_rows = gather_rows_ref,
      .combine_rows = combine_rows_ref,
      .expert_activation = expert_activation_ref,
      .expert_activation_backward = expert_activation_backward_ref,
      .dropout = dropout_ref,
      .convert = convert_ref,
      .copy_matrix = copy_matrix_ref,
      .add = add_ref,
      .sum = sum_ref,
      .zero = zero_ref,
      .fill_normal = fill_normal_ref,
      .squared_norm = squared_norm_ref,
      .exact_squared_norm = exact_squared_norm_ref,
      .adamw = adamw_ref,
      .sgd = sgd_ref,
      .momentum = momentum_ref,
      .weighted_sum = weighted_sum_ref,
  };
  return kReference;
}

}  // namespace trireme
