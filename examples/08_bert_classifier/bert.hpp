// BERT's encoder (Devlin et al. 2018) with a classifier on top, in the sizes that Google published.
// Parameters have the names and shapes of Python's torch.nn.TransformerEncoderLayer, so that both
// can read a snapshot. There are no segment embeddings, because each text comes alone.
#pragma once

#include "examples/08_bert_classifier/sizes.hpp"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace bert_classifier {

struct bert_options {
  encoder_size size;
  std::int64_t vocabulary = 0;
  std::int64_t length = 0;  // tokens of a sample
  std::int64_t classes = 0;
  double dropout = 0.1;
};

struct BertImpl : torch::nn::Module {
  explicit BertImpl(const bert_options& options);
  // [N, length] tokens; returns [N, classes], before the softmax.
  torch::Tensor forward(torch::Tensor tokens);
  // Initialises the parameters in the order of their names, from torch's generator.
  void initialize();

  torch::nn::Embedding words{nullptr};
  torch::nn::Embedding positions{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::ModuleList layers;
  torch::nn::Linear pooler{nullptr};
  torch::nn::Linear classifier{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Bert);

}  // namespace bert_classifier
