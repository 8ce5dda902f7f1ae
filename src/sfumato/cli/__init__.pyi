# Written by `make index` from the `__all__` of every module.
from .command_line import NumbersCommand as NumbersCommand
from .command_line import app as app
from .command_line import main as main
from .terminal import in_line as in_line
from .terminal import progress as progress
