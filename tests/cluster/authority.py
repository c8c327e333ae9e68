"""Makes certificates, tokens and the callers' file of a cluster."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

_NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"


class Authority:
    """An authority in a folder, made by the openssl command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.ca = folder / "ca.pem"
        self._openssl(
            f"req -x509 {_NEW_KEY} -days 3650 -subj /CN=test-ca -keyout ca.key -out {self.ca}"
        )

    def issue(self, name: str, subjects: str, *, days: int = 3650) -> tuple[Path, Path]:
        """Makes NAME.pem and NAME.key, each replaced in one step; with days < 0 they have expired
        already."""
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={subjects}\n")
        self._openssl(f"req {_NEW_KEY} -subj /CN={name} -keyout {name}.newkey -out {name}.csr")
        self._openssl(
            f"x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -in {name}.csr"
            f" -extfile {name}.ext -days {days} -out {name}.newpem"
            if days > 0
            else f"ca -batch -config {self._ca_config()} -in {name}.csr -extfile {name}.ext"
            f" -startdate 20200101000000Z -enddate 20200102000000Z -notext -out {name}.newpem"
        )
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        (self.folder / f"{name}.newkey").rename(key)
        (self.folder / f"{name}.newpem").rename(certificate)
        return certificate, key

    def _ca_config(self) -> Path:
        """Makes what `openssl ca` needs: only that command makes certificates of the past."""
        (self.folder / "index.txt").write_text("")
        config = self.folder / "ca.cnf"
        config.write_text(
            "[ca]\ndefault_ca=one\n[one]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\n"
            "certificate=ca.pem\nprivate_key=ca.key\ndefault_md=sha256\npolicy=any\n"
            "[any]\ncommonName=supplied\n"
        )
        return config

    def _openssl(self, arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments.split()],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def caller_line(name: str, tenant: str, roles: str, token: str) -> str:
    """Returns a line of the callers' file (docs/cluster.md)."""
    return f"{name} {tenant} {roles} sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"
