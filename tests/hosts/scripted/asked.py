"""What a request of a host says, whatever its wire format."""

from dataclasses import dataclass, field


@dataclass
class Asked:
    """A request to the model: the tools on offer, and what the tools that were called so far have answered."""

    tools: list[str]
    """Names as the host spells them; with a namespace, `namespace::name`."""
    results: list[str] = field(default_factory=list)
    """The answers of tools in this conversation, oldest first, as text."""
    prompt: str = ""
    """All that the user said."""
    model: str = ""

    def offered(self, tool):
        """The host's name of our `tool`, or `None` when it is not on offer."""
        for name in self.tools:
            if name == tool or name.endswith((f"__{tool}", f"_{tool}", f"::{tool}")):
                return name
        return None


def text_of(content):
    """The text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            text_of(block.get("text", block.get("content", ""))) for block in content if isinstance(block, dict)
        )
    return ""
