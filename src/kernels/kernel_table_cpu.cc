#include "kernels/kernels_cpu.h"

namespace trireme::TRIREME_ISA {

#define TRIREME_STRING_OF(text) #text
#define TRIREME_NAME_OF(isa) TRIREME_STRING_OF(isa)

const KernelTable kKernels = {
    .name = TRIREME_NAME_OF(TRIREME_ISA),
    .matmul = matmul,
    .grouped_matmul = grouped_matmul,
    .column_sum = column_sum,
    .row_dots = row_dots,
    .row_combination = row_combination,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_merge = attention_merge,
    .norm_forward = norm_forward,
    .norm_backward_input = norm_backward_input,
    .norm_backward_weight = norm_backward_weight,
    .scale_forward = scale_forward,
    .scale_backward_input = scale_backward_input,
    .scale_backward_weight = scale_backward_weight,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .rope = rope,
    .softmax_part = softmax_part,
    .cross_entropy = cross_entropy,
    .cross_entropy_gradient = cross_entropy_gradient,
    .route = route,
    .route_backward = route_backward,
    .count_visits = count_visits,
    .sort_visits = sort_visits,
    .gather_rows = gather_rows,
    .combine_rows = combine_rows,
    .expert_activation = expert_activation,
    .expert_activation_backward = expert_activation_backward,
    .dropout = dropout,
    .convert = convert,
    .copy_matrix = copy_matrix,
    .add = add,
    .sum = sum,
    .zero = zero,
    .fill_normal = fill_normal,
    .squared_norm = squared_norm,
    .exact_squared_norm = exact_squared_norm,
    .adamw = adamw,
    .sgd = sgd,
    .momentum = momentum,
    .weighted_sum = weighted_sum,
};

}  // namespace trireme::TRIREME_ISA
