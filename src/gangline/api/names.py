"""Names as fields of requests."""

from typing import Annotated

from pydantic import AfterValidator

from gangline.events.names import check_name, check_text

Name = Annotated[str, AfterValidator(check_name)]
Text = Annotated[str, AfterValidator(check_text)]
