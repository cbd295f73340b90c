#include "worker/torch/snapshot_archive.hpp"

#include <torch/serialize.h>

namespace ddprun::worker {

std::string to_bytes(const torch::nn::Module& model, const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive model_archive;
  torch::serialize::OutputArchive optimizer_archive;
  model.save(model_archive);
  optimizer.save(optimizer_archive);
  torch::serialize::OutputArchive archive;
  archive.write("model", model_archive);
  archive.write("optimizer", optimizer_archive);
  std::string bytes;
  archive.save_to([&bytes](const void* data, std::size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  return bytes;
}

void from_bytes(std::string_view bytes, torch::nn::Module& model,
                torch::optim::Optimizer& optimizer) {
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(bytes.data(), bytes.size());
    torch::serialize::InputArchive part;
    archive.read("model", part);
    model.load(part);
    archive.read("optimizer", part);
    optimizer.load(part);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw snapshot_archive_error("the snapshot does not fit this model and optimizer: " +
                                 text.substr(0, text.find('\n')));
  }
}

}  // namespace ddprun::worker
