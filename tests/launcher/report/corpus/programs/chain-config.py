# ranks=1
class ConfigError(Exception):
    pass


try:
    {}["lr"]
except KeyError:
    raise ConfigError("no learning rate in config.yaml")
