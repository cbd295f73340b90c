#include "examples/08_bert_classifier/bert.hpp"

#include "examples/08_bert_classifier/texts.hpp"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/linear.h>
#include <torch/nn/init.h>

namespace bert_classifier {
namespace {

namespace nn = torch::nn;
namespace functional = torch::nn::functional;

constexpr double norm_epsilon = 1e-12;
constexpr double first_deviation = 0.02;

constexpr std::int64_t head_width = 64;

nn::LayerNorm layer_norm(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}).eps(norm_epsilon));
}

struct AttentionImpl : nn::Module {
  AttentionImpl(std::int64_t width, double dropout_share)
      : heads(width / head_width), dropout(dropout_share) {
    in_proj_weight = register_parameter("in_proj_weight", torch::empty({3 * width, width}));
    in_proj_bias = register_parameter("in_proj_bias", torch::empty({3 * width}));
    out_proj = register_module("out_proj", nn::Linear(width, width));
  }

  // `values` is [N, L, width]; `is_word` is [N, 1, 1, L] and marks what may be attended to.
  torch::Tensor forward(const torch::Tensor& values, const torch::Tensor& is_word) {
    const auto parts = functional::linear(values, in_proj_weight, in_proj_bias)
                           .unflatten(-1, {3, heads, head_width})
                           .permute({2, 0, 3, 1, 4});
    const auto seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], is_word,
                                                       is_training() ? dropout : 0);
    return out_proj->forward(seen.transpose(1, 2).flatten(2));
  }

  std::int64_t heads;
  double dropout;
  torch::Tensor in_proj_weight, in_proj_bias;
  nn::Linear out_proj{nullptr};
};
TORCH_MODULE(Attention);

// As in BERT, each half is followed by its norm.
struct LayerImpl : nn::Module {
  LayerImpl(std::int64_t width, double dropout_share) {
    self_attn = register_module("self_attn", Attention(width, dropout_share));
    linear1 = register_module("linear1", nn::Linear(width, 4 * width));
    dropout = register_module("dropout", nn::Dropout(dropout_share));
    linear2 = register_module("linear2", nn::Linear(4 * width, width));
    norm1 = register_module("norm1", layer_norm(width));
    norm2 = register_module("norm2", layer_norm(width));
  }

  torch::Tensor forward(torch::Tensor values, const torch::Tensor& is_word) {
    values = norm1->forward(values + dropout->forward(self_attn->forward(values, is_word)));
    const auto inner = dropout->forward(functional::gelu(linear1->forward(values)));
    return norm2->forward(values + dropout->forward(linear2->forward(inner)));
  }

  Attention self_attn{nullptr};
  nn::Linear linear1{nullptr}, linear2{nullptr};
  nn::Dropout dropout{nullptr};
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
};
TORCH_MODULE(Layer);

}  // namespace

BertImpl::BertImpl(const bert_options& options) {
  const auto width = options.size.width;
  words = register_module("words", nn::Embedding(options.vocabulary, width));
  positions = register_module("positions", nn::Embedding(options.length, width));
  norm = register_module("norm", layer_norm(width));
  for (std::int64_t number = 0; number < options.size.layers; ++number)
    layers->push_back(Layer(width, options.dropout));
  register_module("layers", layers);
  pooler = register_module("pooler", nn::Linear(width, width));
  classifier = register_module("classifier", nn::Linear(width, options.classes));
  dropout = register_module("dropout", nn::Dropout(options.dropout));
}

torch::Tensor BertImpl::forward(torch::Tensor tokens) {
  const auto is_word = tokens.ne(token_padding).unsqueeze(1).unsqueeze(1);
  auto values = dropout->forward(norm->forward(words->forward(tokens) + positions->weight));
  for (const auto& layer : *layers)
    values = layer->as<Layer>()->forward(values, is_word);
  const auto pooled = torch::tanh(pooler->forward(values.select(1, 0)));
  return classifier->forward(dropout->forward(pooled));
}

void BertImpl::initialize() {
  const torch::NoGradGuard no_grad;
  for (auto& item : named_parameters()) {
    auto& parameter = item.value();
    if (parameter.dim() > 1) {
      parameter.normal_(0, first_deviation);
    } else if (item.key().find("norm") != std::string::npos && item.key().ends_with("weight")) {
      parameter.fill_(1);
    } else {
      parameter.zero_();
    }
  }
}

}  // namespace bert_classifier
