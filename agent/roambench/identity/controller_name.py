"""The name in the controller's certificate, which agents expect at every address; no library is loaded for
it."""

from typing import Final

CONTROLLER_NAME: Final = "roambench-controller"
